"""A gateway that runs somewhere: what it answers when it is asked how it fares, and what commands have it do."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from trunkline.config.options import Config, GatewayConfig, SearchStrategy
from trunkline.config.reading import user_file
from trunkline.control.change import ToolChange
from trunkline.errors import (
    ConfigError,
    NotFoundError,
    RefusedError,
    StoreError,
    TrunklineError,
    VersionConflictError,
)
from trunkline.gateway.announcement import Announcement, digest_of, find_announcement
from trunkline.model import DOWNLOADING, EMPTY_SNAPSHOT, Entry, ServerView, State, View
from trunkline.tool import Safety
from trunkline.version import __version__

PATIENCE = 2.0
TAKES_ON = 3.0
"""Seconds that a gateway has to take on a file that only just changed."""
T = TypeVar("T")
_ERRORS: dict[str, Callable[..., TrunklineError]] = {
    "config": ConfigError,
    "not-found": NotFoundError,
    "refused": RefusedError,
    "store": StoreError,
    "version-conflict": VersionConflictError,
}
"""Errors of the admin API, by their codes."""
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - asked of, not listened on


@dataclass(frozen=True)
class Running:
    """Where it listens, and the token to show there."""

    address: str
    """Such as `http://127.0.0.1:7420`."""
    token: str = field(default="", repr=False)
    local: bool = False
    """Whether the token is the key of a gateway of this user, which was found here."""

    def statistics(self) -> dict[str, Any]:
        """How calls went and what was saved; an error says why that is not known."""
        status, body = self._get("/api/v1/stats")
        if status == 401:
            raise TrunklineError(
                f"The gateway at {self.address} wants a token.", hint="Set TRUNKLINE_GATEWAY_TOKEN to it."
            )
        told = _report(status, body)
        if not told:
            raise TrunklineError(f"What listens at {self.address} is no Trunkline, or an older one.")
        return told

    def servers(self) -> list[dict[str, Any]]:
        """Its servers, and how calls of each went; none when it does not answer, or not to us."""
        try:
            told: Any = _report(*self._get("/api/v1/servers")).get("servers")
        except TrunklineError:
            return []
        return [one for one in cast("list[Any]", told) if "name" in one] if isinstance(told, list) else []

    def serves(self, entry: Entry) -> bool:
        """Whether the server of a tool, or one of its group, can be reached now."""
        states = {one["name"]: one.get("state") for one in self.servers()}
        return any(states.get(name) in (State.READY, State.DEGRADED) for name in entry.members or (entry.server,))

    def ask(self, about: str, kind: type[T], **rest: Any) -> list[T]:
        """What it knows, as it has it itself; only the gateway that was found here answers so."""
        asked = msgspec.json.encode({"about": about, **rest})
        status, body = self._get("/api/v1/local", asked, patience=60.0)
        if status != 200:
            raise TrunklineError(f"The gateway at {self.address} does not answer this command ({status}).")
        slices = msgspec.msgpack.decode(body, type=list[bytes])
        return [one for part in slices for one in msgspec.msgpack.decode(part, type=list[kind])]

    def request(self, method: str, path: str, body: Any = None, *, version: int = 0) -> dict[str, Any]:
        """What the admin API answers; its errors are raised as ours, as if what it does were done here."""
        headers = {"content-type": "application/json"} | ({"if-match": f'"{version}"'} if version else {})
        sent = None if body is None else msgspec.json.encode(body)
        status, answer = self._get(f"/api/v1/{path}", sent, 60.0, method, headers)
        try:
            told: Any = json.loads(answer or b"{}")
            if status < 300:
                return told
            code, message, hint = told["error"]["code"], told["error"]["message"], told["error"].get("hint", "")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TrunklineError(f"The gateway at {self.address} does not answer this command ({status}).") from None
        raise _ERRORS.get(code, TrunklineError)(message, hint=hint)

    def page(self, path: str) -> int:
        """Open a page of it as a browser would; the status of the answer."""
        return self._get(path, patience=60.0)[0]

    def _get(
        self,
        path: str,
        body: bytes | None = None,
        patience: float = PATIENCE,
        method: str = "",
        more: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        where = urlsplit(self.address)
        kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
        connection = kind(where.hostname or "", where.port, timeout=patience)
        headers = {**(more or {}), **({"authorization": f"Bearer {self.token}"} if self.token else {})}
        if self.local:
            headers["host"] = "localhost"
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as error:
            raise TrunklineError(
                f"No gateway answers at {self.address}.", hint="Start one with `trunkline up`, or name it with --url."
            ) from error
        finally:
            connection.close()


def _report(status: int, body: bytes) -> dict[str, Any]:
    """What a gateway says of its servers; empty when it says something else."""
    try:
        told: Any = json.loads(body) if status == 200 else None
    except ValueError:
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) and "servers" in told else {}


def running_at(url: str, gateway: GatewayConfig) -> Running:
    """The gateway at a URL; without one, where this configuration has it listen."""
    token = gateway.token or next(iter(gateway.users.values()), "")
    if not url:
        return Running(_reachable(gateway.host, gateway.port), token)
    try:
        where = urlsplit(url)
        known = where.scheme in ("http", "https") and bool(where.hostname) and where.port != 0
    except ValueError:
        known = False
    if not known:
        raise ConfigError(f"{url!r} is not the URL of a gateway.", hint="It looks like http://127.0.0.1:7420/mcp.")
    return Running(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}", token)


def _reachable(host: str, port: int | None) -> str:
    """Where something that listens there is reached from this machine."""
    host = _EVERYWHERE.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def find_running(config: Config) -> Running | None:
    """The gateway of this user that serves the same configuration as it is now; `None` when none does."""
    source = config.source or user_file(os.environ)
    found, wanted, since = find_announcement(config.home, source), digest_of(source), time.monotonic()
    while found is not None and found.digest != wanted:
        if time.monotonic() - since > TAKES_ON:
            return None  # what it has is not what we were told
        time.sleep(0.02)
        found = find_announcement(config.home, source)
    return _running(found) if found is not None and found.version == __version__ else None


def _running(found: Announcement) -> Running:
    where = urlsplit(found.address)
    return Running(_reachable(where.hostname or "", where.port), found.key, local=True)


class Reason(NamedTuple):
    """As `trunkline.search.index.Reason`, which takes longer to load than a command should."""

    word: str
    fields: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class FoundTool:
    """A tool that fits a prompt, as `trunkline.control.search.Found`."""

    tool: Entry
    score: float
    reasons: tuple[Reason, ...]
    words_alone: bool = False


@dataclass(frozen=True)
class Told:
    """A server, and what it last wrote to its standard error."""

    view: ServerView
    words: str


class Changes(Protocol):
    """How tools changed."""

    def changes(self) -> Awaitable[list[ToolChange]]: ...


class Servers(Protocol):
    """What commands want of servers: of a hub that started them, or of the gateway that has them."""

    def servers(self) -> list[ServerView]: ...
    def view(self) -> View: ...
    def tools(self) -> Awaitable[list[Entry]]: ...
    @property
    def history(self) -> Changes: ...
    def find(
        self,
        query: str | Sequence[str],
        *,
        limit: int = 10,
        min_score: float | None = None,
        servers: Collection[str] = (),
        safety: Safety | None = None,
    ) -> Awaitable[Sequence[Any]]: ...


class RunningHub:
    """The servers of a configuration as the running gateway has them, asked as a hub is."""

    def __init__(self, running: Running, config: Config) -> None:
        self.running = running
        self._names = {*config.servers, *config.groups}

    async def ready(self, seconds: float) -> None:
        """Wait until none of the servers is only starting, at most so long; longer for what is being downloaded."""
        until = time.monotonic() + seconds
        while True:
            ours = [one for one in self.running.servers() if one["name"] in self._names]
            reasons = [one.get("reason") for one in ours if one["state"] == State.STARTING]
            if not reasons or (time.monotonic() >= until and DOWNLOADING not in reasons):
                return
            await asyncio.sleep(0.1)

    def servers(self) -> list[ServerView]:
        """Every server, and how it fares."""
        return [one.view for one in self.told()]

    def told(self) -> list[Told]:
        """The same with what each said last."""
        return [one for one in self.running.ask("servers", Told) if one.view.name in self._names]

    async def tools(self) -> list[Entry]:
        """Every tool that can be called."""
        found = self.running.ask("tools", Entry)
        return [entry for entry in found if not self._names.isdisjoint((entry.server, *entry.members))]

    def view(self) -> View:
        """What its callers are shown."""
        return View("", "", EMPTY_SNAPSHOT, tools=tuple(self.running.ask("shown", Entry)))

    @property
    def history(self) -> RunningHub:
        """How the servers' tools changed."""
        return self

    async def changes(self) -> list[ToolChange]:
        """All that is remembered, the newest first."""
        return self.running.ask("changes", ToolChange)

    async def find(
        self,
        query: str | Sequence[str],
        *,
        limit: int = 10,
        min_score: float | None = None,
        servers: Collection[str] = (),
        safety: Safety | None = None,
        strategy: SearchStrategy | None = None,
    ) -> list[FoundTool]:
        """The tools that fit a prompt best, or each of several queries."""
        wanted = {"limit": limit, "min_score": min_score, "servers": list(servers), "safety": safety}
        wanted["strategy"] = strategy
        return self.running.ask("found", FoundTool, query=query, **wanted)
