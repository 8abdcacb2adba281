"""Modern callers: every request stands for itself, so there is almost nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import lru_cache
from typing import Any

import msgspec

from trunkline.call.stages.tasks import missing_extension
from trunkline.call.tasks.log import Known
from trunkline.errors import RefusedError, TrunklineError
from trunkline.gateway.mcp.asking import Asking, is_final
from trunkline.gateway.mcp.errors import error_of, status_of
from trunkline.gateway.mcp.lists import Lists, introduce_modern
from trunkline.gateway.mcp.sessions import LEVELS
from trunkline.gateway.mcp.stream import Stream
from trunkline.gateway.mcp.subscribers import Subscriber, Subscribers
from trunkline.gateway.mcp.task_news import TaskNews
from trunkline.gateway.request import JSON, Headers, Request
from trunkline.identity import Scope
from trunkline.model import LIST_METHODS, NOTHING, Call, Caller, Kind, Reply
from trunkline.relay import Relay
from trunkline.tasks import LARGE, Tasks
from trunkline.upstream.connection_key import owner_of
from trunkline.wire import meta
from trunkline.wire.envelope import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Message,
    read_string,
    write_error,
    write_notification,
    write_result,
)
from trunkline.wire.era import error_code
from trunkline.wire.headers import NAMED_BY, check_headers
from trunkline.wire.members import Members, decode_object, encode, is_object, read_members, write_members
from trunkline.wire.tasks import declares

KINDS = {method: kind for kind, method in LIST_METHODS.items()}
RELAYED = frozenset((*NAMED_BY, "completion/complete"))
REMOVED = frozenset(
    (
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
    )
)
"""Methods that this era no longer has; they are refused even where a legacy server would know them."""


class ModernEdge:
    """Answers modern requests, one by one."""

    def __init__(self, relay: Relay, lists: Lists, tasks: Tasks, subscribers: Subscribers, asking: Asking) -> None:
        self._relay, self._lists, self._tasks, self._subscribers = relay, lists, tasks, subscribers
        self._asking = asking

    def post(self, message: Message, params: Members, request: Request) -> Awaitable[None]:
        """Answer one message."""
        if not message.method:
            raise RefusedError("This era has no questions to answer.")
        if not message.id:
            return self._note(request)
        if request.thread:
            return self._post_in_thread(message, params, request)
        return self._dispatch(message, params, request)

    @staticmethod
    async def _note(request: Request) -> None:
        """A notification gets no answer."""
        request.answer(202)

    async def _post_in_thread(self, message: Message, params: Members, request: Request) -> None:
        request.scope = await self._relay.in_thread(request.scope, request.thread)
        await self._dispatch(message, params, request)

    def _dispatch(self, message: Message, params: Members, request: Request) -> Awaitable[None]:
        own = meta.read_meta(params)
        name = check_headers(request.said, version=own.version, method=message.method, params=params)
        meta.check_version(own.version)
        if message.method in RELAYED or self._is_bare_call(message.method, request.scope):
            return self._pass_on(message, name, params, own, request)
        if message.method == "subscriptions/listen":
            return self._listen(message, params, own, request)
        return self._answer(message, params, own, request)

    async def _answer(self, message: Message, params: Members, own: meta.Meta, request: Request) -> None:
        """Answer what no server is asked."""
        result = await self._own_result(message, params, own, request)
        request.answer(200, write_result(message.id, result), [JSON])

    async def _own_result(self, message: Message, params: Members, own: meta.Meta, request: Request) -> bytes:
        kind = KINDS.get(message.method)
        if kind is not None:
            cursor = params.get("cursor", b"")
            view = await self._relay.listed_for(request.scope, _caller(own), kind)
            user = request.scope.user
            page = self._lists.page(view, kind, cursor, modern=True, capabilities=own.capabilities, user=user)
            self._relay.recording.listed(request.scope, kind, page)
            return page
        if message.method == "server/discover":
            await self._relay.settle(request.scope.user)
            return introduce_modern(self._relay.view(request.scope))
        raise RefusedError(f"There is no method {message.method!r}.", code=METHOD_NOT_FOUND, status=404)

    def _is_bare_call(self, method: str, scope: Scope) -> bool:
        """Whether a server that stands alone answers this for itself, whatever extensions it has."""
        return method not in _OWN and method not in REMOVED and bool(self._relay.view(scope).snapshot.bare)

    # Calls.

    async def _pass_on(self, message: Message, name: str, params: Members, own: meta.Meta, request: Request) -> None:
        outlet = Outlet(request, self._tasks, own.log_level)
        call = Call(
            message.method,
            name,
            params,
            scope=request.scope,
            caller=_caller(own),
            listener=outlet,
            raw_params=message.params,
            timeout=request.scope.overrides.timeout,
            headers=request.said.params,
            answers=NOTHING,
            token=request.token if request.admission.issuer else b"",
            traceparent=request.headers.get(b"traceparent", b""),
            whole=request.local,
        )
        if request.patience:
            call.timeout, call.cached, call.unlisted = request.patience, False, True
        if not request.local:
            call.sent_headers = request.headers
        assert request.task is not None
        request.on_gone(request.task.cancel)
        try:
            call = self._relay.enter(call)
            if "requestState" in call.params:
                reply = await self._asking.reply(call)
            else:  # as there, but here: the usual call is spared two frames
                reply = await self._relay.handle(call)
                if not is_final(reply):
                    reply = await self._asking.answer_of(call, reply)
            if len(reply.result) > LARGE:
                await asyncio.sleep(0)  # it was just read, and is now written
        except TrunklineError as error:
            said = error_of(error, modern=True, uri=name, user=call.scope.user)
            await outlet.finish(write_error(message.id, said), *status_of(error))
            return
        if reply.error:
            error = reply.error if reply.modern else modern_error(reply.error, message.method)
            await outlet.finish(write_error(message.id, error), _relayed_status(error), [])
            return
        text = write_result(message.id, modern_result(reply, message.method))
        if outlet.stream is not None:
            await outlet.finish(text, 200, [])
        else:
            request.answer(200, text, _JSON)

    # Subscriptions.

    async def _listen(self, message: Message, params: Members, own: meta.Meta, request: Request) -> None:
        wanted = decode_object(params.get("notifications", b""))
        if not is_object(params.get("notifications", b"")):
            raise RefusedError("`notifications` is not an object.", code=INVALID_PARAMS)
        if not isinstance(wanted.get("resourceSubscriptions", []), list):
            raise RefusedError("`resourceSubscriptions` is not a list.", code=INVALID_PARAMS)
        if not isinstance(wanted.get("taskIds", []), list):
            raise RefusedError("`taskIds` is not a list.", code=INVALID_PARAMS)
        if "taskIds" in wanted and not declares(own.capabilities):
            raise missing_extension()
        stream = Stream()
        caller = _caller(own)
        subscriber = ListenStream(stream, message.id, wanted, request.scope, owner_of(request.scope, caller))
        if wanted.get("taskIds"):
            subscriber.news = TaskNews(self._relay, self._tasks, caller, request.scope, subscriber.tell)
        request.on_gone(stream.finish)
        try:
            await self._watch(subscriber, caller)
            self._subscribers.join(subscriber)
            if subscriber.news is not None:
                await subscriber.news.follow([str(id) for id in wanted["taskIds"]])
            subscriber.acknowledge()
            with request.until_expiry(subscriber.drain):
                await stream.pump(request)
        finally:
            self._subscribers.leave(subscriber)
            if subscriber.news is not None:
                subscriber.news.close()
            for uri in subscriber.uris:
                await self._unwatch(uri, request.scope, caller)

    async def _watch(self, subscriber: ListenStream, caller: Caller) -> None:
        """Follow the resources that a subscription names; those that cannot be followed are not granted."""
        asked, subscriber.uris = subscriber.uris, set()
        for uri in asked:
            try:
                if not (await self._relay.watch(uri, subscriber.scope, caller)).error:
                    subscriber.uris.add(uri)
            except TrunklineError:
                continue

    async def _unwatch(self, uri: str, scope: Scope, caller: Caller) -> None:
        try:
            await self._relay.unwatch(uri, scope, caller)
        except TrunklineError:
            pass  # its server is gone, and with it the subscription


_OWN = frozenset((*KINDS, "server/discover", "subscriptions/listen"))
_JSON: Headers = [JSON]


class Outlet(msgspec.Struct, eq=False):
    """The answer to one POST: plain JSON if the result comes first, a stream if something comes before it."""

    _request: Request
    _tasks: Tasks
    _log_level: str
    stream: Stream | None = None
    """Where something came before the answer."""
    _pump: asyncio.Task[Any] | None = None

    def notify(self, method: str, params: bytes) -> None:
        """A notification of this call: from now on the answer is a stream."""
        if method == "notifications/message" and not loud_enough(params, self._log_level):
            return
        if self._request.answered:
            return  # a call that waits for an answer goes on, while its request is over
        if self.stream is None:
            self.stream = Stream()
            self._pump = self._tasks.start(self.stream.pump(self._request), name="stream")
        self.stream.push(write_notification(method, params), droppable=True)

    def hang_up(self, retry: float) -> None:
        """This era has nothing to poll; we wait in the caller's place."""

    async def finish(self, text: bytes, status: int, headers: Headers) -> None:
        """Send the answer itself."""
        if self.stream is None:
            self._request.answer(status, text, [JSON, *headers])
            return
        assert self._pump is not None
        self.stream.push(text)
        self.stream.finish()
        await self._pump


class ListenStream(Subscriber):
    """One open subscription."""

    def __init__(self, stream: Stream, id: bytes, wanted: dict[str, Any], scope: Scope, owner: str) -> None:
        self._stream, self._id, self.scope, self.owner = stream, id, scope, owner
        self._kinds = {kind for key, kind in _LIST_KEYS.items() if wanted.get(key) is True}
        asked: list[Any] = wanted.get("resourceSubscriptions") or []
        self.uris: set[str] = {str(uri) for uri in asked}
        self.news: TaskNews | None = None

    def acknowledge(self) -> None:
        """The first message: what of the wishes is granted."""
        granted: dict[str, Any] = {key: True for key, kind in _LIST_KEYS.items() if kind in self._kinds}
        if self.uris:
            granted["resourceSubscriptions"] = sorted(self.uris)
        if self.news is not None and self.news.granted:
            granted["taskIds"] = self.news.granted
        self.tell("notifications/subscriptions/acknowledged", encode({"notifications": granted}))
        if self.news is not None:
            self.news.begin()

    def changed(self, kind: Kind) -> None:
        if kind in self._kinds:
            self.tell(f"notifications/{kind.value}/list_changed", b"{}")

    def updated(self, uri: str, params: bytes) -> None:
        if uri in self.uris:
            self.tell("notifications/resources/updated", params)

    def task_changed(self, known: Known, method: str, params: bytes) -> None:
        if self.news is not None:
            self.news.changed(known.task, params)

    def drain(self) -> None:
        tag = write_members({meta.SUBSCRIPTION: self._id})
        self._stream.push(write_result(self._id, write_members({"resultType": b'"complete"', "_meta": tag})))
        self._stream.finish()

    def tell(self, method: str, params: bytes) -> None:
        """Send a notification, with the mark of this subscription."""
        members = read_members(params)
        inner = read_members(members["_meta"]) if is_object(members.get("_meta", b"")) else {}
        members["_meta"] = write_members({**inner, meta.SUBSCRIPTION: self._id})
        self._stream.push(write_notification(method, write_members(members)), droppable=True)


_LIST_KEYS = {
    "toolsListChanged": Kind.TOOL,
    "promptsListChanged": Kind.PROMPT,
    "resourcesListChanged": Kind.RESOURCE,
}


@lru_cache(maxsize=512)
def _caller(own: meta.Meta) -> Caller:
    return Caller(True, own.version, own.capabilities, own.client_info, own.log_level)


def modern_result(reply: Reply, method: str) -> bytes:
    """A result in this era's form: a legacy server's lacks that it is complete, and how long it may be kept."""
    if reply.modern:
        return reply.result
    words = b'{"resultType":"complete"'
    if method == "resources/read":
        words += b',"ttlMs":0,"cacheScope":"private"'
    rest = reply.result[1:].lstrip()
    return words + (b"," if rest[:1] != b"}" else b"") + rest


def modern_error(error: bytes, method: str) -> bytes:
    """A legacy server's error with this era's code for what is not found."""
    code = error_code(error)
    if code == _LEGACY_NOT_FOUND:
        return write_members({**read_members(error), "code": b"%d" % INVALID_PARAMS})
    if code == INVALID_PARAMS and method not in RELAYED:
        # Servers on older SDKs say so of every method that they do not know.
        return write_members({**read_members(error), "code": b"%d" % METHOD_NOT_FOUND})
    return error


def loud_enough(params: bytes, wanted: str) -> bool:
    """Whether a log message is one that the caller asked for; without a level it asked for none."""
    if wanted not in LEVELS:
        return False
    level = read_string(read_members(params).get("level", b""))
    return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(wanted)


_LEGACY_NOT_FOUND = -32002


def _relayed_status(error: bytes) -> int:
    code = error_code(error)
    if code == METHOD_NOT_FOUND:
        return 404
    return 400 if code in (-32700, -32600, -32602, -32020, -32021, -32022) else 200
