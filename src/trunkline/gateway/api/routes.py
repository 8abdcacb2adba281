"""The routes of the admin API: what each takes, gives and wants to be asked by, written once for code and OpenAPI."""

from __future__ import annotations

import gzip
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from trunkline.errors import (
    BusyError,
    CancelledCallError,
    ConfigError,
    CredentialError,
    HeldError,
    InvalidArgumentsError,
    ManifestError,
    NotFoundError,
    ProgramError,
    RefusedError,
    ServerRefusedError,
    StoreError,
    TokenRefusedError,
    TrunklineError,
    UnknownNameError,
    UpstreamError,
    VersionConflictError,
)
from trunkline.gateway.audit import RequestAudit
from trunkline.gateway.mcp.stream import Stream
from trunkline.gateway.request import JSON, Headers, Request
from trunkline.identity import Scope, in_words_of

PATH = "/api/v1/"
PAGE = 100
LONGEST_PAGE = 1000
HIGHEST_LIMIT = 999_999
"""What may be asked for; the longest page is given."""
PACKED = range(8_000, 2_000_000)
"""Bytes of answers that are sent compressed: shorter ones gain little, and longer ones would hold up others."""

T = TypeVar("T")

LetIn = Callable[[Request, bool], Awaitable[bool]]
"""Notes whose a request is, or refuses it; with `True`, one of nobody's is taken as well."""


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What a request may hold; a field that is not there is refused."""


@dataclass
class Ask:
    """One request, as a route sees it."""

    scope: Scope
    names: Mapping[str, str]
    """The parts of the path that the route names."""
    query: Mapping[str, str]
    body: Any
    if_match: int = 0
    """The version that the caller saw, where it said one."""
    sent: Request | None = None
    """What it came in; a command that asks the store itself sends none."""

    @property
    def request(self) -> Request:
        """What it came in, for a route that is of the gateway alone."""
        assert self.sent is not None, "only the gateway has such routes"
        return self.sent

    @property
    def limit(self) -> int:
        """How many the caller wants in a page."""
        text = self.query.get("limit", str(PAGE))
        if not re.fullmatch(r"[1-9][0-9]*", text) or len(text) > len(str(HIGHEST_LIMIT)):
            raise RefusedError("`limit` must be a number from 1 on.")
        return min(int(text), LONGEST_PAGE)

    @property
    def cursor(self) -> str:
        """Behind what the page begins."""
        return self.query.get("cursor", "")

    def require(self, *, or_user: str = "") -> None:
        """Refuse whoever is neither an admin nor the user whose things these are."""
        if self.scope.role != "admin" and (not or_user or or_user != self.scope.user):
            raise RefusedError("Only an admin may do this.", status=403)


@dataclass(frozen=True)
class Given:
    """What a route answers."""

    body: Any = None
    status: int = 200
    version: int = 0
    """The version of what is shown; two who change it at once are told apart by it."""
    headers: Headers = field(default_factory=list[tuple[bytes, bytes]])
    stream: Stream | None = None
    """What it answers as it happens, instead of a body."""
    ended: Callable[[], None] = lambda: None
    """Told when nobody reads the stream any more."""


def page(items: list[Any], limit: int, key: Callable[[Any], str], name: str) -> dict[str, Any]:
    """One page of a list, and where the next begins; `items` has one more than fits if there is a next."""
    shown = {name: items[:limit]}
    return shown | ({"cursor": key(items[limit - 1])} if len(items) > limit else {})


@dataclass(frozen=True)
class Route:
    """One thing that can be asked."""

    method: str
    path: str
    """Below `/api/v1/`, with `{names}` in it."""
    summary: str
    run: Callable[[Ask], Awaitable[Given]]
    body: type[Body] | None = None
    gives: Any = None
    """The type of what it answers, or of each thing in `pages`."""
    pages: str = ""
    """What the list in its answer is called, where it answers a page."""
    status: int = 200
    or_status: int = 0
    """That of the same answer where something was there before, or was not."""
    refuses: tuple[int, ...] = ()
    """How it may refuse, beyond what follows from what it takes."""
    query: tuple[str, ...] = ()
    versioned: bool = False
    """It takes `If-Match`."""
    streams: bool = False
    """It answers by server-sent events."""
    public: Literal["", "to all", "to all who come"] = ""
    """It wants no key; `to all who come` says more to who has one."""
    needs: Literal["", "any key", "a key that writes", "a whole key"] = ""
    """What key it is done with; unless said, looking is for any, and changing for one that may do all its user may."""

    def check(self, scope: Scope) -> None:
        """Refuse a key that may do less than this."""
        needs = self.needs or ("any key" if self.method == "GET" else "a whole key")
        if needs != "any key" and any(rule.read_only for rule in scope.rules):
            raise RefusedError("Whoever may only read changes nothing.", status=403)
        if needs == "a whole key" and (scope.rules or scope.profile):
            hint = "Take one without `servers`, `tools` or `profile`."
            raise RefusedError("A key that may not do everything does not do this.", status=403, hint=hint)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))

    def names(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        """The named parts of a path, if it is one of this route's."""
        if len(parts) != len(self.parts):
            return None
        found: dict[str, str] = {}
        for own, part in zip(self.parts, parts, strict=True):
            if own.startswith("{"):
                found[own[1:-1]] = part
            elif own != part:
                return None
        return found


class Api:
    """Finds the route of a request, reads what it takes, and writes what it gives."""

    def __init__(self, routes: list[Route], audit: RequestAudit | None = None) -> None:
        self.routes, self._audit = routes, audit  # a command that opened the store itself has no audit

    async def __call__(self, request: Request, let_in: LetIn) -> None:
        """Answer one request below `/api/v1/`; `let_in` notes whose it is, or refuses it."""
        route = self._route(request)
        public = route.public if route is not None else ""
        if public != "to all" and not await let_in(request, bool(public)):
            return
        try:
            given = await self._run(request)
        except TokenRefusedError:
            raise  # whoever let the caller in says how to be let in
        except TrunklineError as error:
            status, headers = status_of(error)
            if self._audit is not None:
                self._audit.refused(request, error, status)
            request.answer(status, error_body(error, request.scope.user), [JSON, *headers])
            return
        if given.stream is not None:
            try:
                with request.until_expiry(given.stream.finish):
                    await given.stream.pump(request)
            finally:
                given.ended()
            return
        headers: Headers = [JSON, (b"cache-control", b"no-store"), *given.headers]
        if given.version:
            headers.append((b"etag", b'"%d"' % given.version))
        body = b"" if given.body is None else msgspec.json.encode(given.body)
        if len(body) in PACKED and b"gzip" in request.headers.get(b"accept-encoding", b""):
            body = gzip.compress(body, 1, mtime=0)
            headers += [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
        request.answer(given.status, body, headers)

    async def _run(self, request: Request) -> Given:
        path, query = _split(request)
        route, names = self.find(request.method, path)
        if not route.public:
            route.check(request.scope)
        asked = _query(query, route)
        body = _body(request, route.body) if route.body is not None else None
        version = _version(request.headers.get(b"if-match", b"")) if route.versioned else 0
        given = await route.run(Ask(request.scope, names, asked, body, version, request))
        if self._audit is not None and route.method != "GET" and not path.endswith("/call"):
            self._audit.changed(request, path)
        return given

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route of a method and a path below `/api/v1/`, and what it names there."""
        found = self._at(path)
        if not found:
            raise RefusedError("There is nothing here.", status=404, hint=f"See {PATH}openapi.json.")
        fitting = [one for one in found if one[0].method == ("GET" if method == "HEAD" else method)]
        if not fitting:
            raise RefusedError(f"There is nothing to {method} here.", status=405)
        return fitting[0]

    def _route(self, request: Request) -> Route | None:
        method = "GET" if request.method == "HEAD" else request.method
        return next((route for route, _ in self._at(_split(request)[0]) if route.method == method), None)

    def _at(self, path: str) -> list[tuple[Route, dict[str, str]]]:
        parts = tuple(unquote(part) for part in path.split("/"))
        return [(route, names) for route in self.routes if (names := route.names(parts)) is not None]


def _split(request: Request) -> tuple[str, bytes]:
    """The path below `/api/v1/`, and what follows its `?`."""
    path, _, query = request.url.partition(b"?")
    return path.decode("latin-1").removeprefix(PATH), query


def status_of(error: TrunklineError) -> tuple[int, Headers]:
    """How an error is told over HTTP."""
    match error:
        case RefusedError():
            return error.status, []
        case NotFoundError() | UnknownNameError():
            return 404, []
        case VersionConflictError():
            return 412, []
        case ConfigError() | CredentialError() | ManifestError() | InvalidArgumentsError() | ProgramError():
            return 422, []
        case BusyError():
            return 429, [(b"retry-after", b"%d" % max(1, round(error.retry_after)))]
        case StoreError():
            return 503, [(b"retry-after", b"1")]
        case HeldError():
            return 409, []
        case UpstreamError() | ServerRefusedError() | CancelledCallError():
            return 502, []
        case _:
            return 500, []


def error_body(error: TrunklineError, user: str = "") -> bytes:
    """An error with its code, for programs, and its words, for people: in those of a user, where it is for one."""
    said = {"message": error.message, **({"hint": error.hint} if error.hint else {})}
    words = {name: in_words_of(user, text) for name, text in said.items()}
    return msgspec.json.encode({"error": {"code": code_of(type(error)), **words}})


def code_of(kind: type[TrunklineError]) -> str:
    """What programs know an error by."""
    return re.sub("(?<!^)(?=[A-Z])", "-", kind.__name__.removesuffix("Error")).lower()


def _query(query: bytes, route: Route) -> dict[str, str]:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), max_num_fields=20)
    except ValueError:
        raise RefusedError("What follows the `?` cannot be read.") from None
    for name, _ in pairs:
        if name not in route.query:
            raise RefusedError(
                f"There is no {name!r} to ask for.", hint=f"There are: {', '.join(route.query) or 'none'}."
            )
    if len(dict(pairs)) < len(pairs):
        raise RefusedError("Something is asked for twice.")
    return dict(pairs)


def _body(request: Request, kind: type[T]) -> T:
    if not request.headers.get(b"content-type", b"").lower().startswith(b"application/json"):
        raise RefusedError("This is sent as application/json.", status=415)
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = "What fits is described at /api/v1/openapi.json."
        raise RefusedError(f"The body does not fit: {error}.", status=422, hint=hint) from None


def _version(header: bytes) -> int:
    if not header or header == b"*":
        return 0
    found = re.fullmatch(rb'(?:W/)?"([0-9]{1,18})"', header)
    if found is None:
        raise RefusedError("If-Match is not an ETag of ours.", status=412)
    return int(found[1])
