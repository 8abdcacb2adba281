"""The edge proxy, `/edge?url=…`: takes requests of web pages to servers that browsers could not ask themselves."""

from __future__ import annotations

import asyncio
import ipaddress
import zlib
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from urllib.parse import parse_qsl

from trunkline.config.edge import EdgeSection, read_target
from trunkline.config.tenancy import LimitsSection
from trunkline.errors import RefusedError, TrunklineError, UnreachableError, UpstreamError
from trunkline.gateway.api.routes import error_body, status_of
from trunkline.gateway.cors import SENT, VARY, Cors
from trunkline.gateway.guard import Guard
from trunkline.gateway.request import JSON, Headers, Request
from trunkline.identity import Scope
from trunkline.tenancy.limits import Limiter
from trunkline.upstream.egress import PrivateAddressError, PublicOnly
from trunkline.upstream.http1 import ClosedError, HttpClient, Response, request_bytes
from trunkline.upstream.origin import split_url
from trunkline.version import __version__
from trunkline.wire.headers import PARAM

PATH = "/edge"
KEY_HEADER = b"trunkline-key"
"""Carries our own key where `Authorization` is the target's."""
METHODS = ("GET", "POST", "PUT", "DELETE")

_PASSED_BACK = (
    b"content-type", b"cache-control", b"content-language", b"mcp-session-id", b"mcp-protocol-version", b"retry-after",
    b"www-authenticate",
)  # fmt: skip
_INERT: Headers = [
    # What a stranger wrote stands at an address of ours: no browser may take it for a page of ours.
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
]

LetIn = Callable[[Request], Awaitable[bool]]
"""Notes whose request it is, or refuses it."""


class EdgeProxy:
    """Takes on what pages of some origins ask of some targets, and nothing else."""

    def __init__(self, config: Callable[[], EdgeSection], guard: Guard, let_in: LetIn) -> None:
        self._config, self._guard, self._let_in = config, guard, let_in
        self._running: dict[asyncio.Task[None], Scope] = {}
        self._limiter = Limiter(LimitsSection())
        self._configure(config())

    async def __call__(self, request: Request) -> None:
        """Answer one request; what the target answers is passed on as it comes."""
        section = self._config()
        if section is not self._section:
            self._configure(section)
        request.lines = VARY
        if not self._targets:
            raise RefusedError("There is nothing here.", status=404, hint="MCP is at /mcp.")
        # A page that opens it as a document or a picture sends no origin, and is none of those that are meant.
        if not self._cors.mark(request) or request.headers.get(b"sec-fetch-mode", b"cors") != b"cors":
            raise RefusedError("Requests from this origin are not accepted.", status=403, hint="See `[edge] origins`.")
        if request.method == "OPTIONS":
            self._cors.answer_preflight(request)
            return
        try:
            authorization = await self._admitted(request)
            if authorization is not None:
                await self._limited(request, authorization)
        except TrunklineError as error:
            status, headers = status_of(error)
            request.answer(status, error_body(error), [JSON, *headers])

    def end(self, is_gone: Callable[[Scope], bool] = lambda _: True) -> None:
        """End what is under way for some callers, or for all."""
        for task, scope in list(self._running.items()):
            if is_gone(scope):
                task.cancel()

    def close(self) -> None:
        """Close every idle connection."""
        self._client.close()

    def _configure(self, section: EdgeSection) -> None:
        self._section = section
        targets = section.targets if section.origins else ()
        self._targets = [target for text in targets if (target := read_target(text)) is not None]
        self._passed = (*SENT, *(name.lower().encode() for name in section.headers))
        self._cors = Cors(section.origins, METHODS, (*self._passed, KEY_HEADER))
        self._limiter.configure(
            LimitsSection(calls_per_minute=section.requests_per_minute, running_calls=section.running)
        )
        self._client = HttpClient(None if section.allow_private else PublicOnly())

    async def _admitted(self, request: Request) -> bytes | None:
        """What to send as `Authorization`, which may be nothing; `None` for whoever was not let in, and told so."""
        if request.method not in METHODS:
            raise RefusedError(f"There is nothing to {request.method} here.", status=405)
        headers, key = request.headers, request.headers.get(KEY_HEADER)
        passed = headers.get(b"authorization", b"")
        if key is not None:
            request.headers = headers = {**headers, b"authorization": b"Bearer " + key}
            if passed == headers[b"authorization"] or (
                self._guard.knows_keys and self._guard.known({b"authorization": passed}, "/mcp")
            ):
                raise RefusedError("A key of this gateway is not passed on.", hint="Send it as `Trunkline-Key` alone.")
        elif self._guard.knows_keys:
            passed = b""
        if not await self._let_in(request):
            return None
        if request.scope.rules or request.scope.profile:
            hint = "Take one without `servers`, `tools`, `profile` or `read_only`, of a member."
            raise RefusedError("A key that may not do everything does not do this.", status=403, hint=hint)
        return passed

    async def _limited(self, request: Request, authorization: bytes) -> None:
        """Pass a request on, if its sender has not sent too many."""
        whose = Scope(user=_holder(request))
        self._limiter.enter(whose)
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = request.scope
        request.on_gone(task.cancel)
        try:
            with request.until_expiry(task.cancel):
                await self._pass_on(request, authorization)
        finally:
            del self._running[task]
            self._limiter.leave(whose)

    async def _pass_on(self, request: Request, authorization: bytes) -> None:
        url = self._target(request)
        body = await _decoded(request, self._section.body_limit)
        sent = {name: value for name, value in request.headers.items() if name in self._passed or name[:10] == PARAM}
        sent.pop(b"authorization", None)
        if authorization:
            sent[b"authorization"] = authorization
        response = await self._ask(request.method, url, sent, body)
        try:
            if 300 <= response.status < 400:
                hint = "Ask for the address that it redirects to, if that is among `[edge] targets`."
                raise RefusedError("The target redirects elsewhere.", status=502, hint=hint)
            told = [(name, response.headers[name]) for name in _PASSED_BACK if name in response.headers]
            if response.streams:
                await _stream(request, response, [*told, *_INERT])
            else:
                request.answer(response.status, response.body(), [*told, *_INERT])
        finally:
            response.close()

    def _target(self, request: Request) -> str:
        """The address that is asked for, if it is one of those that may be."""
        query = request.url.partition(b"?")[2]
        try:
            pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=1)
        except ValueError:
            pairs = []
        if len(pairs) != 1 or pairs[0][0] != "url":
            raise RefusedError("It is not said where the request goes.", hint=f"Write {PATH}?url=ADDRESS, encoded.")
        target = read_target(pairs[0][1])
        if target is None:
            raise RefusedError("What follows `url=` is no address.", hint="Encode it: `encodeURIComponent(address)`.")
        if not any(one.origin == target.origin and one.path in ("", "/", target.path) for one in self._targets):
            raise RefusedError("Requests do not go there.", status=403, hint="See `[edge] targets`.")
        return pairs[0][1]

    async def _ask(self, method: str, url: str, headers: dict[bytes, bytes], body: bytes) -> Response:
        """The answer's head, and all of it where it is no stream; nothing is followed or repeated."""
        origin, path = split_url(url)
        own = {
            b"host": origin.authority.encode(),
            b"user-agent": f"trunkline/{__version__}".encode(),
            b"accept-encoding": b"identity",
        }
        request = request_bytes(method.encode(), path, {**headers, **own}, body)
        section = self._section
        with ExitStack() as undo:
            try:
                async with asyncio.timeout(section.timeout):
                    sending = self._client.send(origin, request, limit=section.answer_limit, timeout=section.timeout)
                    response, used = await sending
                    undo.callback(response.close)
                    try:
                        await response.ready()
                    except ClosedError as error:
                        if not (used and error.untouched and method == "GET"):
                            raise
                        sending = self._client.send(origin, request, limit=section.answer_limit)
                        response, _ = await sending
                        undo.callback(response.close)
                        await response.ready()
            except TimeoutError:
                raise RefusedError(f"{origin.authority} did not answer in time.", status=504) from None
            except PrivateAddressError as error:
                raise RefusedError(error.message, status=403, hint="See `[edge] allow_private`.") from error
            except UnreachableError as error:
                raise RefusedError(error.message, status=502) from error
            except UpstreamError as error:
                raise RefusedError(f"{origin.authority} answered badly: {error.message}", status=502) from error
            undo.pop_all()
            return response


async def _stream(request: Request, response: Response, headers: Headers) -> None:
    """Pass events on as they come, as fast as the page reads them; one that breaks off, breaks off."""
    request.begin(headers, response.status)
    try:
        while piece := await response.next_piece():
            await request.write(piece)
    except UpstreamError:
        return  # without an end, so that the page knows that there may have been more
    request.end()


async def _decoded(request: Request, limit: int) -> bytes:
    """The body as it is meant: what is counted is what is passed on."""
    coding = request.headers.get(b"content-encoding", b"").lower()
    body = request.body
    if coding in (b"gzip", b"deflate"):
        body = await asyncio.to_thread(_inflated, body, limit)
    elif coding not in (b"", b"identity"):
        raise RefusedError("The body is compressed in a way that is not known here.", status=415, hint="Use gzip.")
    if len(body) > limit:
        raise RefusedError(f"The body has more than {limit} bytes.", status=413)
    return body


def _inflated(body: bytes, limit: int) -> bytes:
    """At most one byte more than the limit."""
    inflate = zlib.decompressobj(wbits=47)
    try:
        made = inflate.decompress(body, limit + 1)
    except zlib.error:
        raise RefusedError("The body is not compressed as it says.") from None
    if len(made) <= limit and (not inflate.eof or inflate.unused_data):
        raise RefusedError("The body is cut short, or has something behind its end.")
    return made


def _holder(request: Request) -> str:
    """Who is limited: a user, or an address; of IPv6, the network that one customer has."""
    if request.scope.user:
        return f"user {request.scope.person}"
    try:
        address = ipaddress.ip_address(request.peer.partition("%")[0])
    except ValueError:
        return "address"
    return f"address {ipaddress.ip_network((address, 64), strict=False) if address.version == 6 else address}"
