"""The application: guards every request, then hands it to the edge of its caller's era."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from trunkline.call.stages.entry import resolve
from trunkline.callers import Edge
from trunkline.config.options import Config, GatewayConfig
from trunkline.errors import RefusedError, StoreError, TokenRefusedError, TrunklineError, UnreachableError
from trunkline.gateway import callback, console_sign_in, edge_proxy, local_api, metrics, pages, resource
from trunkline.gateway.api import (
    calls,
    clients,
    connections,
    discovery,
    events,
    openapi,
    people,
    programs,
    questions,
    registry,
    review,
    server_actions,
    servers,
    session,
    settings,
    status,
    threads,
    tools,
)
from trunkline.gateway.api.routes import PATH as API
from trunkline.gateway.api.routes import Api, error_body
from trunkline.gateway.audit import RequestAudit
from trunkline.gateway.console import files as console
from trunkline.gateway.console_sign_in import ConsoleSignIn
from trunkline.gateway.cookie import Cookies
from trunkline.gateway.cors import Cors
from trunkline.gateway.edge_proxy import EdgeProxy
from trunkline.gateway.guard import Guard
from trunkline.gateway.mcp.asking import Asking
from trunkline.gateway.mcp.errors import error_of, status_of
from trunkline.gateway.mcp.legacy import LegacyEdge
from trunkline.gateway.mcp.lists import Lists
from trunkline.gateway.mcp.modern import ModernEdge
from trunkline.gateway.mcp.open_questions import OpenQuestion, OpenQuestions
from trunkline.gateway.mcp.sessions import Sessions
from trunkline.gateway.mcp.subscribers import Subscribers
from trunkline.gateway.pages import AnswerPages
from trunkline.gateway.request import JSON, Request
from trunkline.gateway.resource import Resource, place_of
from trunkline.identity import Scope, unit_name
from trunkline.model import Call, State
from trunkline.relay import Relay
from trunkline.tasks import LARGE, Tasks, is_cancelled, open_tasks
from trunkline.tenancy.issuers import Issuers
from trunkline.tenancy.people import NOBODY
from trunkline.tenancy.tenancy import Tenancy
from trunkline.wire.envelope import error_object, read_caller_message, read_params, read_string, write_error
from trunkline.wire.era import LEGACY_VERSIONS
from trunkline.wire.members import Members, encode
from trunkline.wire.meta import THREAD_MARK, is_modern, take_thread

log = logging.getLogger("trunkline")
_FAILED = write_error(b"", error_object(-32603, "Trunkline failed; its log says why."))

METHODS = ("GET", "POST", "DELETE")
"""What MCP is spoken with."""
THREAD_HEADER = b"trunkline-thread"
"""Names the caller's thread, where its `_meta` does not."""
_NO_KEY = RefusedError(
    "A valid bearer token is needed.",
    status=401,
    hint="Send a key of `trunkline key create`, or your identity provider's token, as `Authorization: Bearer`.",
)
_PAGES = (pages.PATH, callback.PATH, API)
"""Where pages of our own send something."""
_LEGACY = frozenset(version.encode() for version in LEGACY_VERSIONS)

Place = Callable[[Request], Awaitable[None] | None]
"""Answers the requests to an address."""


class Doors:
    """Where callers come in; there before the relay, which reaches them through its `edge`."""

    def __init__(self, config: Config, address: str, tenancy: Tenancy) -> None:
        gateway, base = config.gateway, config.gateway.public_url.rstrip("/") or address
        self.issuers = Issuers(config.issuers, base, tenancy.people, tenancy.sign_ins.bring)
        self.guard = Guard(gateway, tenancy.people, self.issuers)
        self.resource = Resource(base, self.issuers)
        tenancy.sign_ins.address = base
        self.pages = AnswerPages(base, self.guard.whose)
        sessions = tenancy.console_sessions
        sessions.idle, sessions.longest = gateway.console_idle, gateway.console_longest
        sessions.issuers = lambda: config.issuers
        self.cookies = Cookies(base, sessions)
        self.console_sign_in = ConsoleSignIn(config.issuers, base, self.issuers, tenancy, self.cookies)
        self.address = base
        self.sessions = Sessions(
            most=gateway.max_sessions, idle=gateway.session_idle, question_timeout=gateway.question_timeout
        )

    @property
    def edge(self) -> Edge:
        """What the gateway does for the relay."""
        return Edge(self.sessions.ask, self.pages.ask, watched=True)


class App:
    """Serves one relay."""

    def __init__(self, relay: Relay, gateway: GatewayConfig, doors: Doors, tasks: Tasks) -> None:
        self._relay, self._guard, self._pages = relay, doors.guard, doors.pages
        self._issuers, self._resource, self._cookies = doors.issuers, doors.resource, doors.cookies
        self._cors = Cors(gateway.allowed_origins, METHODS, (THREAD_HEADER,)) if gateway.allowed_origins else None
        self.edge_proxy = EdgeProxy(lambda: relay.config.edge, doors.guard, self._let_in)
        self._subscribers = Subscribers(relay)
        lists = Lists(gateway.page_size, relay.savings)
        self.questions = OpenQuestions()
        """What waits for people."""
        self._asking = Asking(relay, tasks, self.questions)
        self._modern = ModernEdge(relay, lists, tasks, self._subscribers, self._asking)
        self.legacy = LegacyEdge(relay, gateway, doors.sessions, lists, tasks, self._subscribers, self.questions)
        self.events = events.Events(relay)
        """What is live, for whoever watches."""
        self.questions.listeners.append(self._tell_of_question)
        self._audit = RequestAudit(relay.recording)
        routes = [
            *session.routes(relay, doors.guard, doors.cookies, doors.address, doors.console_sign_in.offered),
            *status.routes(relay),
            *calls.routes(relay),
            *events.routes(self.events),
            *server_actions.routes(relay),
            *servers.routes(relay),
            *connections.routes(relay),
            *discovery.routes(relay),
            *registry.routes(relay),
            *clients.routes(relay, doors.address),
            *tools.routes(relay, self._asking, tasks),
            *questions.routes(relay, self.questions),
            *review.routes(relay),
            *programs.routes(relay),
            *people.routes(relay.tenancy.people, self._known),
            *settings.routes(relay, doors.address),
            *threads.routes(relay.tenancy.threads, lambda: relay.config),
        ]
        self.api = Api([*routes, openapi.route(routes)], self._audit)
        numbers = {
            "sessions": lambda: len(doors.sessions),
            "parked_calls": lambda: self._asking.parked,
            "watchers": lambda: len(self.events),
        }
        self._metrics = metrics.Metrics(relay, numbers)
        relay.tenancy.people.on_change(self._admissions_changed)
        relay.tenancy.threads.on_change(self._thread_changed)
        self.places = self._places(doors)
        """Everything that is served but the edge proxy, by its address, or by how that begins if it ends with `/`."""
        self.draining = False

    async def __call__(self, request: Request) -> None:
        try:
            if request.path == edge_proxy.PATH:
                self._guard.check(request, any_origin=True)
                if self.draining:
                    request.answer(503, b"", [(b"retry-after", b"1")])
                    return
                await self.edge_proxy(request)
                return
            self._guard.check(request, same_origin=request.path.startswith(_PAGES))
            if self._cors is not None and self._is_preflight(request, self._cors):
                return
            answering = (self.places.get(request.path) or self._place(request.path))(request)
            if answering is not None:
                await answering
        except TokenRefusedError as error:
            self._refuse_token(request, error)
        except RefusedError as error:
            self._audit.refused(request, error)
            if request.path.startswith(API):
                request.answer(error.status, error_body(error), [JSON])
            else:
                _refuse(request, error, b"")
        except asyncio.CancelledError:
            if request.gone:  # the caller hung up, and there is nobody to tell
                return
            if is_cancelled():
                raise
            log.exception("A request failed: what it waited for was cancelled")
            request.answer(500, _FAILED, [JSON])
        except Exception:
            log.exception("A request failed")
            request.answer(500, _FAILED, [JSON])

    def _places(self, doors: Doors) -> dict[str, Place]:
        sign_ins, signing_in = self._relay.tenancy.sign_ins, partial(doors.console_sign_in, audit=self._audit)
        return {
            "/mcp": self._mcp,
            "/mcp/": self._mcp,
            pages.PATH: self._pages,
            callback.PATH: partial(callback.answer, sign_ins, doors.guard.scope_of, doors.cookies),
            local_api.PATH: self._local,
            API: partial(self.api, let_in=self._let_in),
            metrics.PATH: self._measured,
            resource.PATH: self._described,
            f"{resource.PATH}/": self._described,
            console.PAGE: console.answer,
            console.PATH: console.answer,
            console_sign_in.BACK: signing_in,
            console_sign_in.BEGIN: signing_in,
            "/healthz": self._health,
            "/readyz": self._health,
        }

    def _place(self, path: str) -> Place:
        found = next((start for start in self.places if start[1:].endswith("/") and path.startswith(start)), None)
        if found is None:
            raise _nothing()
        return self.places[found]

    def drain(self) -> None:
        """Take no new requests, and end the streams that never end by themselves."""
        self.draining = True
        self.edge_proxy.end()
        self._subscribers.drain()
        self.events.drain()

    def _is_preflight(self, request: Request, cors: Cors) -> bool:
        """Mark the answers to pages of other origins; whether a browser only asked what they may send."""
        if not request.path.startswith(("/mcp", resource.PATH)) or not cors.mark(request):
            return False
        if request.method == "OPTIONS":
            cors.answer_preflight(request)
        return request.answered

    async def _let_in(self, request: Request, or_nobody: bool = False) -> bool:
        """Note whose request it is, or refuse it: the one place where it is said whose call a call is."""
        try:
            found = await self._cookies.admit(request) if request.path.startswith(API) else None
            request.by_cookie = found is not None
            found = found or await self._guard.admit(request.headers, place_of(request.path))
        except TokenRefusedError as error:
            self._refuse_token(request, error)
            return False
        except (StoreError, UnreachableError) as error:  # nobody can be asked: the answer is no
            body = error_body(error) if request.path.startswith(API) else error_object(error.code, str(error))
            request.answer(503, body, [(b"retry-after", b"1"), JSON])
            return False
        if found is None and or_nobody and b"authorization" not in request.headers:
            found = NOBODY
        if found is None:
            self._refuse_token(request, _NO_KEY)
            return False
        request.scope, request.admission = found.scope, found
        return True

    async def _let_in_admin(self, request: Request) -> bool:
        if not await self._let_in(request):
            return False
        if request.scope.role != "admin":
            raise RefusedError("Only an admin may do this.", status=403)
        return True

    def _refuse_token(self, request: Request, error: RefusedError) -> None:
        """Say that a token is wanted, or another one, and where it is to be had."""
        self._audit.refused(request, error)
        body = error_body(error) if request.path.startswith(API) else error_object(-32001, error.message)
        helps = error.status == 401 or (isinstance(error, TokenRefusedError) and error.scopes)
        request.answer(error.status, body, [*([self._resource.challenge(request, error)] if helps else ()), JSON])

    def _tell_of_question(self, what: str, one: OpenQuestion) -> None:
        said = {"id": one.id, "tool": one.call.name}
        self.events.emit(f"question.{what}", said, person=one.call.scope.person)

    def _admissions_changed(self, user: str, key: str, now: Scope | None) -> None:
        """What a key gives is another, or nothing: what was opened with it ends."""

        def is_gone(scope: Scope) -> bool:
            if not key:
                return bool(scope.key) and scope.user == user
            return scope.key == key and (now is None or not _same_rights(scope, now))

        self.legacy.end(is_gone)
        self._subscribers.drain(is_gone)
        self.edge_proxy.end(is_gone)
        self.events.drain(is_gone)
        if not key:
            self._asking.forget_user(user)

    async def _known(self, user: str) -> people.KnownNames:
        """What a user's keys may name."""
        config = self._relay.config
        own = [unit_name(one.spec.name) for one in await self._relay.tenancy.servers.of(user)]
        return people.KnownNames(config.profiles, {*config.servers, *config.groups, *own})

    async def _local(self, request: Request) -> None:
        if not self._guard.is_local(request.headers):
            raise RefusedError("Only commands of whoever runs the gateway are answered here.", status=403)
        await local_api.answer(self._relay, request)

    def _thread_changed(self, user: str, thread: str) -> None:
        """What exists in a thread is another: sessions in it end, and begin anew with what it has."""

        def is_in_it(scope: Scope) -> bool:
            return bool(scope.thread) and ((scope.user, scope.thread) == (user, thread) or not thread)

        self.legacy.end(is_in_it)
        self._subscribers.drain(is_in_it)

    async def _mcp(self, request: Request) -> None:
        found = self._guard.known(request.headers, request.path)
        if found is not None:
            request.scope, request.admission = found.scope, found
        elif not await self._let_in(request):
            return
        patience = request.headers.get(local_api.PATIENCE)
        if patience is not None and self._guard.is_local(request.headers):
            request.local, request.patience = True, float(patience)
        if self.draining:
            request.answer(503, b"", [(b"retry-after", b"1")])
            return
        thread = request.headers.get(THREAD_HEADER)
        if thread:
            request.thread = thread.decode("latin-1")
        if request.path != "/mcp":
            request.scope = self._at_profile(request)
        if not self._relay.knows(request.scope):
            is_call = request.headers.get(b"mcp-method") == b"tools/call"
            tool = request.headers.get(b"mcp-name", b"").decode("latin-1") if is_call else ""
            await self._relay.welcome(request.scope, tool)
        version = request.headers.get(b"mcp-protocol-version", b"")
        if request.method != "POST":
            return await self._listen(request, version)
        if not request.said.is_json:
            raise RefusedError("A message is sent as application/json.", status=415)
        id = b""
        try:
            message = read_caller_message(request.body)
            id, large = message.id, len(message.params) > LARGE
            if large:
                await asyncio.sleep(0)  # reading it once takes as long as a slice: others have their turn
            params = read_params(message)
            if large:
                await asyncio.sleep(0)
            if params.get("_meta", b"").partition(THREAD_MARK)[1]:
                request.thread, params = take_thread(params)
                message.params = b""
            if request.admission.wider is not None and message.method == "tools/call":
                self._check_writing(request, request.admission.wider, params)
            modern = (version and version not in _LEGACY) or is_modern(params)
            await (self._modern if modern else self.legacy).post(message, params, request)
        except TokenRefusedError:
            raise
        except TrunklineError as error:
            _refuse(request, error, id)

    def _check_writing(self, request: Request, wider: Scope, params: Members) -> None:
        """Tell a caller whose token may only read which scope it needs for a tool that does more."""
        profiled = dataclasses.replace(wider, profile=request.scope.profile)
        call = Call("tools/call", read_string(params.get("name", b"")), params, scope=profiled)
        self._relay.enter(call)
        with_scope, without = self._relay.view(profiled).snapshot, self._relay.view(request.scope).snapshot
        if resolve(call, with_scope) is not None and resolve(call, without) is None:
            scopes = self._issuers.step_up(request.admission)
            raise TokenRefusedError("The token may only read.", status=403, scopes=scopes)

    async def _listen(self, request: Request, version: bytes) -> None:
        if version and version not in _LEGACY:
            raise RefusedError(f"This era has no {request.method}.", status=405)
        if request.method == "GET":
            await self.legacy.get(request)
        elif request.method == "DELETE":
            await self.legacy.delete(request)
        else:
            raise RefusedError(f"There is nothing to {request.method} here.", status=405)

    def _at_profile(self, request: Request) -> Scope:
        """The caller at the profile that an address names; nothing is served at one that names none, or not theirs."""
        name, own = request.path.removeprefix("/mcp/"), request.scope.profile
        if name not in self._relay.config.profiles or (own and own != name):
            raise RefusedError("There is no such profile.", status=404, hint="MCP is at /mcp.")
        return dataclasses.replace(request.scope, profile=name)

    async def _measured(self, request: Request) -> None:
        if self._metrics.knows(request) or await self._let_in_admin(request):
            await self._metrics.answer(request)

    def _described(self, request: Request) -> None:
        if not self._guard.wants_key:
            raise _nothing()
        self._resource.answer(request, self._relay.config.profiles)

    def _health(self, request: Request) -> None:
        if request.method not in ("GET", "HEAD"):
            raise RefusedError(f"There is nothing to {request.method} here.", status=405)
        if request.path == "/healthz":
            request.answer(200, b'{"status":"ok"}', [JSON])
            return
        views = self._relay.servers()
        word = "draining" if self.draining else _readiness({view.state for view in views} - {State.STOPPED})
        body: dict[str, object] = {"status": word}
        found = self._guard.known(request.headers, "/mcp")
        if found is not None:
            scope = found.scope
            seen = views if scope.role == "admin" else self._relay.view(scope).snapshot.servers.values()
            states = {status.name_for(scope, view.name): view for view in seen}
            if scope.role == "admin" and self._relay.programs.pool.runtime is not None:
                runtime = self._relay.programs.pool.runtime
                body["programs"] = {"isolation": runtime.isolation, "reason": runtime.reason}
            body["servers"] = {name: {"state": one.state.value, "reason": one.reason} for name, one in states.items()}
        request.answer(200 if word == "ready" else 503, encode(body), [JSON])


def _nothing() -> RefusedError:
    return RefusedError("There is nothing here.", status=404, hint="MCP is at /mcp.")


def _readiness(states: set[State]) -> str:
    """`ready` when some server can take calls, or none is configured; else whether one may yet come."""
    if not states or states & {State.READY, State.DEGRADED}:
        return "ready"
    return "starting" if State.STARTING in states else "unavailable"


@asynccontextmanager
async def open_app(relay: Relay, gateway: GatewayConfig, doors: Doors) -> AsyncGenerator[App]:
    """The application over a relay, with the tasks it needs."""
    async with open_tasks() as tasks:
        tasks.start(relay.keep_index(), name="index of tools")
        app = App(relay, gateway, doors, tasks)
        try:
            yield app
        finally:
            app.edge_proxy.close()


def _same_rights(scope: Scope, now: Scope) -> bool:
    """Whether a scope, which may be in a thread, is still what its key gives."""
    same = (scope.person, scope.role, scope.limits) == (now.person, now.role, now.limits)
    return same and scope.rules[: len(now.rules)] == now.rules and (not now.profile or scope.profile == now.profile)


def _refuse(request: Request, error: TrunklineError, id: bytes) -> None:
    status, headers = status_of(error)
    request.answer(status, write_error(id, error_of(error, modern=True)), [JSON, *headers])
