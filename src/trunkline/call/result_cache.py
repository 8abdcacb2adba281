"""Keeps tools' answers, each for the tenant and server it came from; failures are never kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from trunkline.call.cache import CacheConfig, CacheStats, ToolCache, says_error
from trunkline.tools.digest import digest, digest_json

RESULT_CACHE_CONFIG = CacheConfig(namespace="tool-results")


class ToolResultCache:
    """Answers by tenant, server, tool and arguments. Arguments are a mapping, or the bytes of a JSON object."""

    def __init__(self, config: CacheConfig = RESULT_CACHE_CONFIG, **options: Any) -> None:
        self._cache: ToolCache[Any] = ToolCache(config, **options)
        self.on = self._cache.on
        """Hear of an event, named by its class or its name; call what is returned to stop."""
        self.off = self._cache.off
        """Hear of it no longer."""

    def cache_result(
        self,
        tool: str,
        args: Mapping[str, Any] | bytes,
        result: Any,
        *,
        ttl: float | None = None,
        server: str = "",
        tenant: str = "",
    ) -> bool:
        """Keep an answer; false when it was not stored, such as one that is an error or asks something back."""
        if not is_final(result):
            return False
        return self._cache.set(result_key(tool, args, server=server, tenant=tenant), result, ttl)

    def get_cached_result(
        self,
        tool: str,
        args: Mapping[str, Any] | bytes,
        default: Any = None,
        *,
        server: str = "",
        tenant: str = "",
    ) -> Any:
        """The answer that was kept for this tenant, server, tool and arguments, or `default`."""
        return self._cache.get(result_key(tool, args, server=server, tenant=tenant), default)

    def has_cached_result(
        self, tool: str, args: Mapping[str, Any] | bytes, *, server: str = "", tenant: str = ""
    ) -> bool:
        """Whether there is an answer; neither counts nor uses it."""
        return self._cache.has(result_key(tool, args, server=server, tenant=tenant))

    def invalidate_tool(self, tool: str, *, server: str | None = None, tenant: str | None = None) -> int:
        """Remove a tool's answers, of all servers and tenants unless one is named; how many."""
        parts = ["*" if part is None else escaped(part) for part in (tenant, server, tool)]
        return self._cache.invalidate(":".join([*parts, "*"]))

    def get_stats(self) -> CacheStats:
        """Hits, misses, evictions and sizes."""
        return self._cache.get_stats()

    def clear(self) -> None:
        """Remove all answers."""
        self._cache.clear()

    def destroy(self) -> None:
        """Remove all answers and store no more."""
        self._cache.destroy()


def create_tool_result_cache(config: CacheConfig = RESULT_CACHE_CONFIG, **options: Any) -> ToolResultCache:
    """A cache for tools' answers."""
    return ToolResultCache(config, **options)


def result_key(tool: str, args: Mapping[str, Any] | bytes, *, server: str = "", tenant: str = "") -> str:
    """The key of an answer: `<tenant>:<server>:<tool>:<SHA-256 of the arguments>`, with ':' in names escaped."""
    found = digest_json(args) if isinstance(args, bytes) else digest(args)
    return f"{escaped(tenant)}:{escaped(server)}:{escaped(tool)}:{found}"


def is_final(result: object) -> bool:
    """Whether an answer, decoded or still JSON, is neither a failure nor a question."""
    if isinstance(result, bytes):
        return _is_final_json(result)
    return not says_error(result) and not (isinstance(result, Mapping) and _is_open(cast("Mapping[Any, Any]", result)))


def _is_open(result: Mapping[Any, Any]) -> bool:
    return result.get("success") is False or result.get("resultType", "complete") != "complete"


class _Outcome(msgspec.Struct):
    isError: bool = False
    resultType: str = "complete"


_read_outcome = msgspec.json.Decoder(_Outcome).decode


def _is_final_json(text: bytes) -> bool:
    try:
        outcome = _read_outcome(text)
    except (msgspec.DecodeError, RecursionError):
        # An object that we cannot read may well say that it is an error; other bytes are no answer of a server.
        return not text.lstrip().startswith(b"{")
    return not outcome.isError and outcome.resultType == "complete"


_SPECIAL = re.compile("[:*?%]")
_ESCAPES = str.maketrans({":": "%3A", "*": "%2A", "?": "%3F", "%": "%25"})


def escaped(name: str) -> str:
    """Escaped, a name can neither reach into its neighbour nor act as a pattern."""
    return name.translate(_ESCAPES) if _SPECIAL.search(name) else name
