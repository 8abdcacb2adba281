"""What browsers are told (CORS): which origins' pages may read our answers, and what they may send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trunkline.gateway.request import Request
from trunkline.wire.headers import PARAM

SENT = (
    b"accept", b"authorization", b"content-type", b"last-event-id", b"mcp-method", b"mcp-name",
    b"mcp-protocol-version", b"mcp-session-id", b"traceparent", b"tracestate",
)  # fmt: skip
"""Headers that callers of MCP send; those of arguments, `Mcp-Param-*`, besides."""
READ = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"
"""Headers of answers that pages may read."""
AGAIN_AFTER = b"7200"
"""Seconds for which a browser need not ask again what it may send; none keeps it for longer."""

VARY = b"vary: Origin\r\n"


class Cors:
    """What the pages of some origins may do at some addresses: each by its name, none with cookies."""

    def __init__(self, origins: Iterable[str], methods: Sequence[str], further: Iterable[bytes] = ()) -> None:
        self._origins = frozenset(origin.lower().rstrip("/").encode() for origin in origins)
        self._methods = ", ".join(methods).encode()
        self._sent = frozenset((*SENT, *further))

    def mark(self, request: Request) -> bool:
        """Have the answer say whose pages may read it; `False` when the request comes from none of theirs."""
        origin = request.headers.get(b"origin")
        if origin is None or origin.lower() not in self._origins:
            request.lines = VARY
            return False
        request.lines = b"access-control-allow-origin: %s\r\naccess-control-expose-headers: %s\r\n" % (origin, READ)
        request.lines += VARY
        # What a person is signed in to is no page's to use.
        request.headers = {name: value for name, value in request.headers.items() if name != b"cookie"}
        return True

    def answer_preflight(self, request: Request) -> None:
        """Say what pages of the origin may send; it was marked, and wants no key, since browsers send none here."""
        asked = request.headers.get(b"access-control-request-headers", b"").lower()
        wanted = {name.strip() for name in asked.split(b",")}
        allowed = sorted(self._sent | {name for name in wanted if name.startswith(PARAM) and name.isascii()})
        request.answer(
            204,
            headers=[
                (b"access-control-allow-methods", self._methods),
                (b"access-control-allow-headers", b", ".join(allowed)),
                (b"access-control-max-age", AGAIN_AFTER),
            ],
        )
