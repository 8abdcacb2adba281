"""Tools in the admin API: as whoever asks has them, and a call of one."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from trunkline.errors import NotFoundError, RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.gateway.api.threads import whose
from trunkline.gateway.mcp.asking import Asking
from trunkline.identity import Scope, unit_name
from trunkline.model import Call, Caller, Entry
from trunkline.relay import Relay
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
    definition: NotRequired[dict[str, Any]]
    """All that its server says of it, where it alone was asked for."""


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


def routes(relay: Relay, asking: Asking) -> list[Route]:
    """What can be done with tools."""
    api = _Tools(relay, asking)
    query = ("q", "thread", "server", "user", "cursor", "limit")
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
        Route("GET", "tools/{name}", "A tool", api.get, gives=ShownTool, query=("thread", "user")),
        Route("POST", "tools/{name}/call", "Call a tool", api.call, WantedCall, Called, needs="any key"),
    ]


class _Tools:
    def __init__(self, relay: Relay, asking: Asking) -> None:
        self._relay, self._asking = relay, asking

    async def list(self, ask: Ask) -> Given:
        scope = await self._scope(ask, ask.query.get("thread", ""))
        await self._relay.settle()
        snapshot = self._relay.view(scope).snapshot
        server, query = ask.query.get("server", ""), ask.query.get("q", "")
        if query:
            chosen = [server] if server else []
            found = await self._relay.find(query, snapshot, scope, limit=ask.limit, servers=chosen)
            return Given({"tools": [{**shown(one.tool), "score": round(one.score, 4)} for one in found]})
        names = sorted(
            name for name, entry in snapshot.tools.items() if not server or unit_name(entry.server) == server
        )
        left = [name for name in names if name > ask.cursor][: ask.limit + 1]
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
        return Given({**shown(found), "definition": decode(found.definition)})

    async def call(self, ask: Ask) -> Given:
        scope = await self._scope(ask, ask.body.thread)
        name = ask.names["name"]
        body: WantedCall = ask.body
        if body.answers and not body.state:
            raise RefusedError("`answers` to which question?", status=422, hint="Give the `state` that came with it.")
        caller = Caller(version=MODERN_VERSIONS[0], capabilities=CAPABILITIES, client_info=CLIENT_INFO)
        stamp = meta.Meta(MODERN_VERSIONS[0], caller.capabilities, CLIENT_INFO)
        params = meta.stamp({"name": encode(name), "arguments": encode(body.arguments)}, stamp)
        if body.state:
            params |= {"requestState": encode(body.state), "inputResponses": encode(body.answers)}
        timeout = scope.overrides.timeout
        call = Call("tools/call", name, params, scope=scope, caller=caller, timeout=timeout, whole=True)
        call = self._relay.enter(call)
        if body.state and not self._asking.knows(body.state, call):
            hint = "Call anew, without `state` and `answers`."
            raise NotFoundError("No call of yours waits for this answer.", hint=hint)
        reply = await self._asking.reply(call)
        if reply.error:
            raise RefusedError(str(decode(reply.error).get("message", "")), status=502)
        return Given(_called(decode(reply.result)))

    async def _scope(self, ask: Ask, thread: str) -> Scope:
        """Who is meant, with the rights of who asks."""
        scope = ask.scope
        if whose(ask) != scope.user:
            scope = await self._relay.scope_of(whose(ask))
        elif not self._relay.knows(scope):
            await self._relay.welcome(scope)
        return await self._relay.in_thread(scope, thread) if thread else scope


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
