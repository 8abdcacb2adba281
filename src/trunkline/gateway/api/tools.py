"""Tools in the admin API: as whoever asks has them, and a call of one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Coroutine, Sequence
from typing import Any, NotRequired, TypedDict, cast, get_args

import msgspec

from trunkline.config.options import SearchStrategy
from trunkline.control.search import Found
from trunkline.errors import NotFoundError, RefusedError, TrunklineError
from trunkline.gateway.api.routes import Ask, Body, Given, Route, error_body
from trunkline.gateway.api.status import Counted, counted
from trunkline.gateway.api.threads import whose
from trunkline.gateway.mcp.asking import Asking
from trunkline.gateway.mcp.stream import Stream
from trunkline.gateway.request import Request
from trunkline.identity import Scope, unit_name
from trunkline.model import Call, Caller, Entry, Snapshot
from trunkline.relay import Relay
from trunkline.search.index import LEARNT, MEANING
from trunkline.tasks import Tasks
from trunkline.tool import Annotations
from trunkline.tools.annotations import get_tool_safety_level
from trunkline.tools.categories import infer_category
from trunkline.tools.infer import Inference, infer
from trunkline.tools.tokens import estimated
from trunkline.upstream.connection import CLIENT_INFO
from trunkline.wire import meta
from trunkline.wire.era import MODERN_VERSIONS
from trunkline.wire.members import decode, encode


class WantedCall(Body, frozen=True):
    """A call of a tool."""

    arguments: dict[str, Any] = {}
    thread: str = ""
    state: str = ""
    """Of the answer to an equal call that asked something: the call goes on where it waits."""
    answers: dict[str, dict[str, Any]] = {}
    """What that call asked, answered by the names of its questions."""


class ShownTool(TypedDict):
    """A tool, by the name that it is called by."""

    name: str
    server: str
    title: str | None
    description: str
    read_only: bool | None
    destructive: bool | None
    changed: list[str]
    score: NotRequired[float]
    """How well it fits, where something was searched for."""
    why: NotRequired[Why]
    """What speaks for it, where something was searched for."""
    definition: NotRequired[dict[str, Any]]
    """All that its server says of it, where it alone was asked for."""


class Why(TypedDict):
    """Why a tool was found."""

    words: list[str]
    """Those that it has."""
    fields: dict[str, list[str]]
    """Where it has each of them."""
    shares: dict[str, float]
    """What each of them is of the score."""
    meaning: NotRequired[float]
    """The share of what it means."""
    learnt: NotRequired[float]
    """The share of its having served lately."""
    words_alone: bool
    """Meaning was to count, but what the query means was not known in time."""


class ToolDetail(ShownTool):
    """All that is known of a tool."""

    annotations: dict[str, dict[str, Any]]
    """How it behaves: each with its `value`, whom it is `from` (`config`, `server`, `inferred`), and the `evidence`."""
    confidence: float
    """How sure its words are of what it does."""
    tags: list[str]
    cost_hint: float | None
    tokens: int
    """About what its definition takes of a model's context."""
    options: dict[str, Any]
    """What the configuration says of it."""
    safety: str
    category: str
    deferred: bool
    callers: list[str]
    """Who may call it."""
    members: list[str]
    """Of a group: the servers that offer it."""
    held: str
    statistics: Counted
    """How calls of it went since the start: to all but admins, their own."""


class AskedQuestion(TypedDict):
    """Something that a tool asks a person, as MCP has it."""

    method: str
    params: dict[str, Any]


class Called(TypedDict, total=False):
    """What a tool answered, as MCP has it; or what it asks first, to be answered by the same call with `state`."""

    content: list[dict[str, Any]]
    structuredContent: Any
    isError: bool
    resultType: str
    """`input_required` where it asks something."""
    questions: dict[str, AskedQuestion]
    state: str


CAPABILITIES = b'{"elicitation":{"form":{},"url":{}}}'
"""Whoever calls here can be asked what a person answers."""


def routes(relay: Relay, asking: Asking, tasks: Tasks) -> list[Route]:
    """What can be done with tools."""
    api = _Tools(relay, asking, tasks)
    query = ("q", "strategy", "thread", "server", "user", "cursor", "limit")
    return [
        Route(
            "GET",
            "tools",
            "A page of the tools that you have, or those that fit best",
            api.list,
            gives=ShownTool,
            pages="tools",
            query=query,
        ),
        Route("GET", "tools/{name}", "A tool", api.get, gives=ToolDetail, query=("thread", "user")),
        Route(
            "POST",
            "tools/{name}/call",
            "Call a tool; with `Accept: text/event-stream`, what it tells meanwhile comes before its result",
            api.call,
            WantedCall,
            Called,
            needs="any key",
            refuses=(409, 429, 502),
        ),
    ]


class _Tools:
    def __init__(self, relay: Relay, asking: Asking, tasks: Tasks) -> None:
        self._relay, self._asking, self._tasks = relay, asking, tasks

    async def list(self, ask: Ask) -> Given:
        scope, strategy = await self._scope(ask, ask.query.get("thread", "")), _strategy(ask)
        await self._relay.settle(scope.user)
        snapshot = self._relay.view(scope).snapshot
        server, query = ask.query.get("server", ""), ask.query.get("q", "")
        if query:
            chosen = [server] if server else []
            found = await self._relay.find(query, snapshot, scope, limit=ask.limit, servers=chosen, strategy=strategy)
            tools = [{**shown(one.tool), "score": round(one.score, 4), "why": _why(one)} for one in found]
            return Given({"tools": tools})
        names = _names(snapshot, server) if server else snapshot.tool_names
        first = bisect_right(names, ask.cursor)
        left = names[first : first + ask.limit + 1]
        body: dict[str, Any] = {
            "tools": [shown(snapshot.tools[name]) for name in left[: ask.limit]],
            "total": len(names),
        }
        return Given(body | ({"cursor": left[ask.limit - 1]} if len(left) > ask.limit else {}))

    async def get(self, ask: Ask) -> Given:
        scope = await self._scope(ask, ask.query.get("thread", ""))
        found = self._relay.view(scope).snapshot.tools.get(ask.names["name"])
        if found is None:
            raise NotFoundError(f"There is no tool {ask.names['name']!r}.")
        user = "" if scope.role == "admin" else scope.user
        tally = self._relay.tallies.of(user).tools.get((found.server, found.name))
        return Given({**_detail(found), "statistics": counted(tally)})

    async def call(self, ask: Ask) -> Given:
        scope = await self._scope(ask, ask.body.thread)
        streamed = b"text/event-stream" in ask.request.headers.get(b"accept", b"")
        told = _Told(ask.request, self._tasks) if streamed else None
        call = self._relay.enter(_call(ask.names["name"], ask.body, scope, told))
        if ask.body.state and not self._asking.knows(ask.body.state, call):
            hint = "Call anew, without `state` and `answers`."
            raise NotFoundError("No call of yours waits for this answer.", hint=hint)
        if told is not None:
            await told.run(self._result(call))
            return Given()
        return Given(await self._result(call))

    async def _result(self, call: Call) -> dict[str, Any]:
        reply = await self._asking.reply(call)
        if reply.error:
            raise RefusedError(str(decode(reply.error).get("message", "")), status=502)
        return _called(decode(reply.result))

    async def _scope(self, ask: Ask, thread: str) -> Scope:
        """Who is meant, with the rights of who asks."""
        scope = ask.scope
        if whose(ask) != scope.user:
            scope = await self._relay.scope_of(whose(ask))
        elif not self._relay.knows(scope):
            await self._relay.welcome(scope)
        return await self._relay.in_thread(scope, thread) if thread else scope


def _names(snapshot: Snapshot, server: str) -> Sequence[str]:
    """The names of the tools of one server, in their order."""
    offers = (one for one in snapshot.offers.values() if unit_name(one.server) == server)
    return sorted(name for one in offers for name in one.tools if name in snapshot.tools)


def _call(name: str, body: WantedCall, scope: Scope, told: _Told | None) -> Call:
    """The call that is meant, of a caller who can be asked and, with a stream, is told what happens meanwhile."""
    if body.answers and not body.state:
        raise RefusedError("`answers` to which question?", status=422, hint="Give the `state` that came with it.")
    level = "info" if told is not None else ""
    caller = Caller(version=MODERN_VERSIONS[0], capabilities=CAPABILITIES, client_info=CLIENT_INFO, log_level=level)
    stamp = meta.Meta(MODERN_VERSIONS[0], caller.capabilities, CLIENT_INFO, level)
    given = {"name": encode(name), "arguments": encode(body.arguments)}
    params = meta.stamp({**given, "_meta": b'{"progressToken":1}'} if told is not None else given, stamp)
    if body.state:
        params |= {"requestState": encode(body.state), "inputResponses": encode(body.answers)}
    timeout = scope.overrides.timeout
    call = Call("tools/call", name, params, scope=scope, caller=caller, timeout=timeout, whole=True)
    call.listener = told or call.listener
    return call


class _Told:
    """What a tool tells before its result, as events of a stream: `progress`, `message`, then `result` or `error`."""

    def __init__(self, request: Request, tasks: Tasks) -> None:
        self._stream = Stream()
        self._request, self._tasks = request, tasks

    def notify(self, method: str, params: bytes) -> None:
        """Pass on one notification."""
        kind = method.rpartition("/")[2]
        if kind in ("progress", "message"):
            self._stream.push(params, event=kind, droppable=True)

    def hang_up(self, retry: float) -> None:
        """We wait in the caller's place."""

    async def run(self, result: Coroutine[Any, Any, dict[str, Any]]) -> None:
        """Write the stream, until the result is there."""
        pump = self._tasks.start(self._stream.pump(self._request), name="what a tool tells")
        task = self._request.task
        self._request.on_gone(lambda: task.cancel() if task is not None else None)
        try:
            try:
                self._stream.push(encode(await result), event="result")
            except TrunklineError as error:
                self._stream.push(error_body(error, self._request.scope.user), event="error")
        finally:
            self._stream.finish()
        await pump


def _strategy(ask: Ask) -> SearchStrategy | None:
    wanted = ask.query.get("strategy")
    if wanted is None:
        return None
    for known in get_args(SearchStrategy):
        if wanted == known:
            return known
    raise RefusedError(f"`strategy` is one of {', '.join(get_args(SearchStrategy))}.", status=422)


def _why(found: Found) -> Why:
    words = [one for one in found.reasons if one.word not in (MEANING, LEARNT)]
    why: Why = {
        "words": [one.word for one in words],
        "fields": {one.word: list(one.fields) for one in words},
        "shares": {one.word: round(one.share, 4) for one in words},
        "words_alone": found.words_alone,
    }
    shares = {one.word: round(one.share, 4) for one in found.reasons}
    if shares.get(MEANING):
        why["meaning"] = shares[MEANING]
    if shares.get(LEARNT):
        why["learnt"] = shares[LEARNT]
    return why


def _detail(entry: Entry) -> dict[str, Any]:
    """All that is known of a tool, but for how its calls went."""
    definition = decode(entry.definition)
    told = infer(entry.name, str(definition.get("description", "")), definition.get("inputSchema"))
    return {
        **shown(entry),
        "definition": definition,
        "annotations": _hints(entry, definition, told),
        "confidence": round(told.confidence, 4),
        "tags": list(entry.annotations.tags),
        "cost_hint": entry.annotations.cost_hint,
        "tokens": round(estimated(entry.definition)),
        "options": _without_unknown(entry.options),
        "safety": str(get_tool_safety_level(entry.annotations)),
        "category": entry.options.category or infer_category(entry.name, str(definition.get("description", ""))),
        "deferred": entry.deferred,
        "callers": list(entry.callers),
        "members": [unit_name(one) for one in entry.members],
        "held": entry.held,
    }


def _hints(entry: Entry, definition: dict[str, Any], told: Inference) -> dict[str, dict[str, Any]]:
    """Each thing that is said of how a tool behaves, and who says it."""
    configured, own = _without_unknown(entry.options), definition.get("annotations")
    said_by_server = set(cast("dict[str, Any]", own)) if isinstance(own, dict) else set[str]()
    found: dict[str, dict[str, Any]] = {}
    for name, value in _without_unknown(entry.annotations).items():
        first, *rest = name.split("_")
        if name in configured:
            found[name] = {"value": value, "from": "config"}
        elif {name, first + "".join(word.title() for word in rest)} & said_by_server or name == "title":
            found[name] = {"value": value, "from": "server"}
        else:
            found[name] = {"value": value, "from": "inferred", "evidence": list(told.evidence)}
    return found


def _without_unknown(value: Annotations) -> dict[str, Any]:
    """What is known, without what is not."""
    found: dict[str, Any] = msgspec.to_builtins(value)
    return {name: said for name, said in found.items() if said not in (None, "", [], ())}


def _called(result: dict[str, Any]) -> dict[str, Any]:
    """A result, and what it asks in the words of `WantedCall`."""
    names = {"inputRequests": "questions", "requestState": "state"}
    asks = result.get("resultType") == "input_required"
    return {names.get(name, name): value for name, value in result.items()} if asks else result


def shown(entry: Entry) -> ShownTool:
    """A tool for programs to read."""
    definition = decode(entry.definition)
    return {
        "name": entry.shown,
        "server": unit_name(entry.server),
        "title": definition.get("title") or entry.annotations.title,
        "description": definition.get("description", ""),
        "read_only": entry.annotations.read_only_hint,
        "destructive": entry.annotations.destructive_hint,
        "changed": list(entry.changed),
    }
