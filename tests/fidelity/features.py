"""The rows of the table: what the protocol can do, and how it is seen that it is done."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fidelity import offers
from tests.fidelity.callers import PREFIX, Peer, Reply
from tests.fidelity.case import ASKABLE, Case, common
from tests.harness import Heard

Check = Callable[[Case], Awaitable[None]]

IMPOSSIBLE = {
    "no list": "Modern callers cannot ask which tasks there are; the extension has no such request.",
    "no waiting": "Modern callers ask for a task again and again; there is no request that waits for its result.",
    "server's word": "A modern server says in its own words that its tool needs a caller that knows tasks.",
    "only to those": "A modern server tells of tasks only to those who name them; legacy callers cannot, and poll.",
    "no ping": "Modern callers have no `ping`; Trunkline refuses it as a modern server does.",
    "server's choice": "Which log messages a legacy caller gets that named no level is for the server to choose.",
    "no such headers": "Legacy callers repeat no arguments in headers; Trunkline does it for them.",
    "no such news": "Only legacy callers tell of changed roots, and only legacy servers listen; modern ones ask anew.",
    "no unsubscribe": "A modern caller ends a subscription by closing its stream; there is no request for it.",
}
"""Why a feature cannot exist in a pair of eras: in two words, and in a sentence."""

MODERN_CALLER = ("modern-modern", "modern-legacy")
LEGACY_CALLER = ("legacy-modern", "legacy-legacy")


@dataclass(frozen=True)
class Feature:
    """One row."""

    group: str
    name: str
    check: Check
    alone: bool = False
    """It changes the server, and so needs one of its own."""
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    """Pairs of eras in which it cannot exist, and why."""
    note: str = ""
    """What is not compared literally, and why."""

    @property
    def id(self) -> str:
        return self.check.__name__


FEATURES: list[Feature] = []


def feature(
    group: str, name: str, *, alone: bool = False, cannot: Mapping[str, str] | None = None, note: str = ""
) -> Callable[[Check], Check]:
    """Put a check into the table."""

    def add(check: Check) -> Check:
        FEATURES.append(Feature(group, name, check, alone, cannot or {}, note))
        return check

    return add


def call(tool: str, /, **arguments: Any) -> Callable[[Peer], Awaitable[Heard]]:
    """Call a tool."""
    return lambda peer: peer.request("tools/call", {"name": tool, "arguments": arguments})


def ask(method: str, /, **params: Any) -> Callable[[Peer], Awaitable[Heard]]:
    """Send a request."""
    return lambda peer: peer.request(method, params)


async def fixed(case: Case, tool: str) -> None:
    """A tool that always answers the same answers the same."""
    seen = await case.same(call(tool))
    assert common(seen)["result"] == offers.RESULTS[tool]


# The server.


@feature(
    "Introduction",
    "name, version, icons, instructions, capabilities",
    note="Between eras, extensions are left out: only modern servers announce them.",
)
async def introduction(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        said = dict(await peer.introduction())
        if case.bridged:
            said["capabilities"] = {name: one for name, one in said["capabilities"].items() if name != "extensions"}
        return {"introduction": said, "info": said.get("serverInfo") or said["_meta"][PREFIX + "serverInfo"]} | (
            {"introduction": {name: said[name] for name in ("capabilities", "instructions")}} if case.bridged else {}
        )

    seen = await case.same(look)
    assert seen["info"] == offers.INFO
    assert seen["introduction"]["instructions"] == offers.INSTRUCTIONS
    assert seen["introduction"]["capabilities"].items() >= offers.CAPABILITIES.items()


@feature("Introduction", "ping", cannot=dict.fromkeys(MODERN_CALLER, "no ping"))
async def ping(case: Case) -> None:
    assert (await case.same(ask("ping")))["result"] == {}


# Tools.


async def all_tools(peer: Peer) -> list[Heard]:
    pages = [await peer.request("tools/list")]
    while cursor := pages[-1].result.get("nextCursor"):
        pages.append(await peer.request("tools/list", {"cursor": cursor}))
    for tool in [tool for page in pages for tool in page.result["tools"] if not peer.modern]:
        if tool["name"] != "job" and tool.get("execution") == {"taskSupport": "optional"}:
            del tool["execution"]  # said by Trunkline, see the note
    return pages


@feature(
    "Tools",
    "list: schemas, title, annotations, icons, `_meta`, unknown fields",
    note="Where a modern server has tasks, legacy callers see with each tool that it may run as one (`execution`).",
)
async def tool_list(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        return [tool for page in await all_tools(peer) for tool in page.result["tools"]]

    assert await case.same(look) == offers.TOOLS


@feature("Tools", "list: pages", note="The cursors themselves are Trunkline's own.")
async def tool_pages(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        pages = await all_tools(peer)
        for page in pages:
            page.message["result"] = {**page.result, "nextCursor": "nextCursor" in page.result}
        return pages

    pages = await case.same(look)
    assert [page["result"]["nextCursor"] for page in pages] == [True] * (len(pages) - 1) + [False]
    assert len(pages) > 3


@feature("Tools", "text")
async def text(case: Case) -> None:
    await fixed(case, "text")


@feature("Tools", "image")
async def image(case: Case) -> None:
    await fixed(case, "image")


@feature("Tools", "audio")
async def audio(case: Case) -> None:
    await fixed(case, "audio")


@feature("Tools", "embedded resource (text, blob)")
async def embedded(case: Case) -> None:
    await fixed(case, "embedded")


@feature("Tools", "link to a resource")
async def link(case: Case) -> None:
    await fixed(case, "link")


@feature("Tools", "structured content")
async def structured(case: Case) -> None:
    await fixed(case, "structured")


@feature("Tools", "a failure of the tool (`isError`)")
async def failing(case: Case) -> None:
    await fixed(case, "failing")


@feature("Tools", "unknown types of content, unknown fields")
async def future(case: Case) -> None:
    await fixed(case, "future")


@feature("Tools", "`_meta` of results and contents")
async def marked(case: Case) -> None:
    await fixed(case, "marked")


@feature("Tools", "`_meta` of the request (trace context)")
async def request_meta(case: Case) -> None:
    meta = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "example/é": [1.5, None]}
    seen = await case.same(lambda peer: peer.request("tools/call", {"name": "meta"}, meta=meta))
    assert json.loads(seen["result"]["content"][0]["text"]) == meta


@feature("Tools", "results byte by byte: big integers, `1.0`, `null`, escapes, order")
async def exact(case: Case) -> None:
    async def look(peer: Peer) -> bytes:
        return (await peer.request("tools/call", {"name": "exact"})).raw

    for url in (case.through, case.direct):
        assert offers.EXACT.encode() in await case.see(url, look, {})


@feature("Tools", "arguments byte by byte")
async def exact_arguments(case: Case) -> None:
    arguments = '{"z": 123456789012345678901234567890, "a":1.0,"m" :[1E+2,-0.0,null],"\\u006bey":"caf\\u00e9 \\/ 😀"}'
    seen = await case.same(lambda peer: peer.call_bytes("echo", arguments.encode()))
    assert seen["result"]["content"][0]["text"] == arguments


@feature("Tools", "arguments repeated in headers (`x-mcp-header`)")
async def param_header(case: Case) -> None:
    async def look(peer: Peer) -> Heard:
        params = {"name": "region", "arguments": {"region": "eu"}}
        return await peer.request("tools/call", params, mcp_param_region="eu")

    assert (await case.same(look))["result"]["content"][0]["text"] == "eu"


@feature(
    "Tools",
    "arguments that headers contradict are refused",
    cannot=dict.fromkeys(LEGACY_CALLER, "no such headers"),
    note="The words are Trunkline's own where the server has no such headers; the code and the status are the same.",
)
async def wrong_header(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        params = {"name": "region", "arguments": {"region": "eu"}}
        heard = await peer.request("tools/call", params, mcp_param_region="us")
        return {"status": heard.status, "code": heard.error["code"]}

    assert await case.same(look) == {"status": 400, "code": -32020}


@feature("Tools", "an unknown tool")
async def unknown_tool(case: Case) -> None:
    assert (await case.same(call("nowhere")))["error"]["data"] == {"tool": "nowhere"}


# Errors and unknown methods.


@feature("Errors", "code, message and data of an error")
async def error_data(case: Case) -> None:
    seen = await case.same(call("refuse"))
    assert seen["error"] == {"code": 4711, "message": "Refused – é.", "data": {"why": [None, 1.5, {"deep": "é"}]}}
    assert (await case.same(call("broken")))["error"]["code"] == -32603


@feature("Errors", "a method that only the server knows")
async def own_method(case: Case) -> None:
    params: dict[str, Any] = {"value": [1, None, "é"]}
    assert (await case.same(ask("example/echo", **params)))["result"]["echo"] == params


@feature("Errors", "an unknown method")
async def unknown_method(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        heard = await peer.request("example/nowhere", {})
        return {"status": heard.status, "error": heard.error}

    assert (await case.same(look))["error"]["code"] == -32601


# Resources.


@feature("Resources", "list")
async def resource_list(case: Case) -> None:
    assert (await case.same(ask("resources/list")))["result"]["resources"] == offers.RESOURCES


@feature("Resources", "read: text")
async def read_text(case: Case) -> None:
    seen = await case.same(ask("resources/read", uri="note://one"))
    assert seen["result"]["contents"] == offers.CONTENTS["note://one"]


@feature("Resources", "read: blob")
async def read_blob(case: Case) -> None:
    assert (await case.same(ask("resources/read", uri="note://blob")))["result"]["contents"] == [offers.BLOB]


@feature("Resources", "templates: list, read")
async def templates(case: Case) -> None:
    assert (await case.same(ask("resources/templates/list")))["result"]["resourceTemplates"] == offers.TEMPLATES
    seen = await case.same(ask("resources/read", uri="note://of/ada/monday"))
    assert seen["result"]["contents"][0]["text"] == "Of ada/monday."


@feature(
    "Resources",
    "not found",
    note="The code is -32002 only between a legacy caller and a legacy server: a modern server says -32602, "
    "which has other meanings too, so it cannot be translated back.",
)
async def not_found(case: Case) -> None:
    codes = list[int]()

    async def look(peer: Peer) -> Any:
        error = (await peer.request("resources/read", {"uri": "note://nowhere"})).error
        if case.column.pair == "legacy-modern":
            codes.append(error.pop("code"))
        return error

    seen = await case.same(look)
    assert codes in ([], [-32002, -32602]), codes
    assert seen["data"] == {"uri": "note://nowhere"}
    assert seen.get("code") == {"modern-modern": -32602, "modern-legacy": -32602, "legacy-legacy": -32002}.get(
        case.column.pair
    )


# Prompts.


@feature("Prompts", "list")
async def prompt_list(case: Case) -> None:
    seen = await case.same(ask("prompts/list"))
    assert seen["result"]["prompts"] == offers.PROMPTS
    assert seen["result"]["_meta"]["example/list"] == [None]


@feature("Prompts", "get, with arguments")
async def prompt(case: Case) -> None:
    seen = await case.same(ask("prompts/get", name="greet", arguments={"who": "Ada", "how": "é\n"}))
    assert '"Ada"' in seen["result"]["messages"][0]["content"]["text"]


@feature("Prompts", "get: embedded resource, unknown content")
async def prompt_resource(case: Case) -> None:
    messages = (await case.same(ask("prompts/get", name="read")))["result"]["messages"]
    assert [one["content"]["type"] for one in messages] == ["resource", "hologram"]


@feature("Prompts", "an unknown prompt")
async def unknown_prompt(case: Case) -> None:
    assert (await case.same(ask("prompts/get", name="nowhere")))["error"]["data"] == {"name": "nowhere"}


# Completion.


@feature("Completion", "of a prompt's argument")
async def complete_prompt(case: Case) -> None:
    argument, ref = {"name": "who", "value": "ad"}, {"type": "ref/prompt", "name": "greet", "title": "Greet"}
    seen = await case.same(ask("completion/complete", ref=ref, argument=argument))
    assert seen["result"]["completion"]["values"][:2] == ["ada", "adele"]


@feature("Completion", "of a template's variable, with context")
async def complete_template(case: Case) -> None:
    argument, ref = {"name": "day", "value": ""}, {"type": "ref/resource", "uri": "note://of/{person}/{day}"}
    context = {"arguments": {"person": "ada"}}
    seen = await case.same(ask("completion/complete", ref=ref, argument=argument, context=context))
    assert seen["result"]["completion"]["total"] == 4


# While a call runs.


@feature("During a call", "progress")
async def progress(case: Case) -> None:
    for token in ("tøken", 7):
        meta = {"progressToken": token}
        seen = await case.same(lambda peer, meta=meta: peer.request("tools/call", {"name": "progress"}, meta=meta))
        assert [one["params"]["progress"] for one in seen["before"]] == [1, 2.5, 3]
        assert {one["params"]["progressToken"] for one in seen["before"]} == {token}


@feature("During a call", "log messages from a level on")
async def log(case: Case) -> None:
    for level, count in (("warning", 5), ("debug", 8), ("emergency", 1)):
        seen = await case.same(lambda peer, level=level: peer.logged("log", level))
        assert len(seen["before"]) == count
        assert seen["before"][0]["params"]["level"] == level


@feature(
    "During a call", "no log messages that nobody asked for", cannot=dict.fromkeys(LEGACY_CALLER, "server's choice")
)
async def no_log(case: Case) -> None:
    assert (await case.same(call("log")))["before"] == []


@feature("During a call", "cancellation")
async def cancellation(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        key = uuid.uuid4().hex
        first = await peer.cancelled("wait", {"key": key})
        return {"first": first, **(await call("was_cancelled", key=key)(peer)).message, "id": 0}

    seen = await case.same(look)
    assert seen["first"]["params"]["progressToken"] == "first"
    assert seen["result"]["content"][0]["text"] == "True"


# Questions.


def always(answer: dict[str, Any]) -> Reply:
    """Answer every question alike."""
    return lambda method, params: answer


def form_reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": "Ada – é", "tags": ["b"]}, "_meta": {"example/answer": None}}


async def questions(case: Case, method: str, params: dict[str, Any], reply: Reply, count: int = 1) -> dict[str, Any]:
    """What is asked, and what comes of the answer, is the same."""

    async def look(peer: Peer) -> Any:
        asked, heard = await peer.answering(method, params, reply)
        return {"asked": sorted(asked, key=json.dumps), **heard.message, "id": 0}

    seen = await case.same(look, ASKABLE)
    assert len(seen["asked"]) == count
    return seen


def answer_in(seen: dict[str, Any]) -> Any:
    return json.loads(seen["result"]["content"][0]["text"])


@feature("Questions", "form: accepted")
async def form(case: Case) -> None:
    seen = await questions(case, "tools/call", {"name": "ask_form"}, form_reply)
    assert seen["asked"] == [{"method": "elicitation/create", "params": offers.FORM}]
    assert answer_in(seen) == form_reply("", {})


@feature("Questions", "form: declined, cancelled")
async def form_declined(case: Case) -> None:
    for action in ("decline", "cancel"):
        seen = await questions(case, "tools/call", {"name": "ask_form"}, always({"action": action}))
        assert answer_in(seen) == {"action": action}


@feature("Questions", "two at once")
async def two_questions(case: Case) -> None:
    def reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": params["message"]}}

    seen = await questions(case, "tools/call", {"name": "ask_twice"}, reply, count=2)
    assert [one["content"]["name"] for one in answer_in(seen)] == [offers.FORM["message"], "And who else?"]


@feature("Questions", "an address to open (`url`)")
async def url(case: Case) -> None:
    seen = await questions(case, "tools/call", {"name": "ask_url"}, always({"action": "accept"}))
    assert seen["asked"][0]["params"] == offers.URL
    assert answer_in(seen) == {"action": "accept"}


@feature(
    "Questions",
    "an address to open before the call (-32042)",
    note="A modern server asks where a legacy one refuses with -32042; compared are the address and the end.",
)
async def url_first(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        params = {"name": "needs_url", "arguments": {"key": uuid.uuid4().hex}}
        asked, heard = await peer.answering("tools/call", params, always({"action": "accept"}))
        return {"asked": asked, **heard.message, "id": 0}

    seen = await case.same(look, ASKABLE)
    assert [one["params"]["url"] for one in seen["asked"]] == [offers.URL["url"]]
    assert seen["result"]["content"][0]["text"] == "Signed in."


@feature("Questions", "sampling")
async def sampling(case: Case) -> None:
    said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "é"}, "stopReason": "endTurn"}
    seen = await questions(case, "tools/call", {"name": "ask_model"}, always(said))
    assert seen["asked"] == [{"method": "sampling/createMessage", "params": offers.SAMPLE}]
    assert answer_in(seen) == said


@feature("Questions", "roots")
async def roots(case: Case) -> None:
    said = {"roots": [{"uri": "file:///home/ada", "name": "Home – é", "_meta": {"example/r": 1}}]}
    seen = await questions(case, "tools/call", {"name": "ask_roots"}, always(said))
    assert seen["asked"][0]["method"] == "roots/list"
    assert answer_in(seen) == said


@feature("Questions", "changed roots", cannot=dict.fromkeys((*MODERN_CALLER, "legacy-modern"), "no such news"))
async def roots_changed(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        await peer.answering("tools/call", {"name": "ask_roots"}, always({"roots": []}))
        await peer.notify("notifications/roots/list_changed")
        return await call("roots_changed")(peer)

    assert (await case.same(look, ASKABLE))["result"]["content"][0]["text"] == "True"


@feature("Questions", "a caller is not asked what it did not declare")
async def not_asked(case: Case) -> None:
    seen = await case.same(call("ask_model"), {"elicitation": {}})
    assert seen["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}


@feature("Questions", "asked by a prompt")
async def prompt_asks(case: Case) -> None:
    seen = await questions(case, "prompts/get", {"name": "asks"}, form_reply)
    assert "Ada" in seen["result"]["messages"][0]["content"]["text"]


@feature("Questions", "asked by a resource")
async def resource_asks(case: Case) -> None:
    seen = await questions(case, "resources/read", {"uri": "note://of/asks"}, form_reply)
    assert "Ada" in seen["result"]["contents"][0]["text"]


# Changes.


OWN_NEWS = "The news is Trunkline's own, told when it has read the list anew; empty `params` count as none."


async def changed(
    case: Case, kind: str, names: Callable[[Heard], list[str]], capabilities: dict[str, Any] | None = None
) -> None:
    """A change of a list is heard, and the list read afterwards shows it."""

    async def look(peer: Peer) -> Any:
        async with peer.listening(kind) as stream:
            done = await call("change", kind=kind)(peer)
            heard = await stream.next()
        lists = await all_tools(peer) if kind == "tools" else [await peer.request(f"{kind}/list")]
        # Empty params say no more than none.
        heard = {name: value for name, value in heard.items() if value != {}}
        return {"heard": heard, "done": done.text, "names": [name for one in lists for name in names(one)]}

    seen = await case.same(look, capabilities)
    assert seen["heard"]["method"] == f"notifications/{kind}/list_changed"
    assert seen["done"] == "heard: True"
    assert seen["names"][-1] == "new"


@feature("Changes", "of the tools", alone=True, note=OWN_NEWS)
async def tools_changed(case: Case) -> None:
    await changed(case, "tools", lambda page: [tool["name"] for tool in page.result["tools"]])


@feature("Changes", "of the tools, by a call of one who can be asked", alone=True, note=OWN_NEWS)
async def own_tools_changed(case: Case) -> None:
    await changed(case, "tools", lambda page: [tool["name"] for tool in page.result["tools"]], ASKABLE)


@feature("Changes", "of the prompts", alone=True, note=OWN_NEWS)
async def prompts_changed(case: Case) -> None:
    await changed(case, "prompts", lambda page: [prompt["name"] for prompt in page.result["prompts"]])


@feature("Changes", "of the resources", alone=True, note=OWN_NEWS)
async def resources_changed(case: Case) -> None:
    await changed(case, "resources", lambda page: [resource["name"] for resource in page.result["resources"]])


async def one_updated(case: Case, capabilities: dict[str, Any] | None = None) -> None:
    """A change of a resource is heard by whoever follows it."""

    async def look(peer: Peer) -> Any:
        async with peer.listening(uri="note://watched") as stream:
            done = await call("update", uri="note://watched")(peer)
            return {"heard": await stream.next(), "done": done.text}

    seen = await case.same(look, capabilities)
    assert seen["heard"]["method"] == "notifications/resources/updated"
    assert seen["heard"]["params"]["uri"] == "note://watched"
    assert seen["done"] == "heard: True"


@feature("Changes", "of one resource (subscription)", alone=True)
async def updated(case: Case) -> None:
    await one_updated(case)


@feature("Changes", "of one resource, by a call of one who can be asked", alone=True)
async def own_updated(case: Case) -> None:
    await one_updated(case, ASKABLE)


@feature("Changes", "no longer of one resource", alone=True, cannot=dict.fromkeys(MODERN_CALLER, "no unsubscribe"))
async def no_longer_updated(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        async with peer.listening("tools", uri="note://watched") as stream:
            ended = await peer.request("resources/unsubscribe", {"uri": "note://watched"})
            await call("update", uri="note://watched", wait=False)(peer)
            await call("change", kind="tools")(peer)
            return {"ended": ended.result, "heard": (await stream.next())["method"]}

    seen = await case.same(look)
    assert seen["ended"] == {}
    assert seen["heard"] == "notifications/tools/list_changed"


# Extensions.

APPS: dict[str, Any] = {"extensions": {PREFIX + "ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}


@feature("MCP Apps", "a tool's page, which is not listed, can be read")
async def app_page(case: Case) -> None:
    seen = await case.same(ask("resources/read", uri=offers.PAGE_URI), APPS)
    assert seen["result"]["contents"] == offers.CONTENTS[offers.PAGE_URI]


@feature("MCP Apps", "tools show their page, and answer")
async def app_tool(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        return [
            tool for page in await all_tools(peer) for tool in page.result["tools"] if "ui" in tool.get("_meta", ())
        ]

    assert [tool["name"] for tool in await case.same(look, APPS)] == ["app", "app_only"]
    await fixed(case, "app")


@feature("MCP Apps", "a tool for the app alone can be called")
async def app_only(case: Case) -> None:
    seen = await case.same(call("app_only"), APPS)
    assert common(seen)["result"] == offers.RESULTS["app_only"]


# Tasks.

OWN_ID = "The id of a task is Trunkline's own: it is sealed to the caller."


def knowing(case: Case, **more: Any) -> dict[str, Any]:
    """What a caller declares that knows tasks; a legacy one says it with each call."""
    return {"extensions": {PREFIX + "tasks": {}}, **more} if case.column.caller == "modern" else more


async def begin(peer: Peer, tool: str = "job", **arguments: Any) -> tuple[str, Heard]:
    """Call a tool as a task: its id, and everything else that came back."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    heard = await peer.request("tools/call", params if peer.modern else {**params, "task": {"ttl": 60_000}})
    made = heard.result if peer.modern else heard.result["task"]
    return made.pop("taskId"), heard


async def about(peer: Peer, method: str, id: str, **params: Any) -> Heard:
    """Ask something about a task; what comes back names it by the same id, or not at all."""
    heard = await peer.request(f"tasks/{method}", {"taskId": id, **params}, mcp_name=id)
    result = heard.message.get("result", {})
    assert result.pop("taskId", id) == id
    related = result.get("_meta", {}).pop(PREFIX + "related-task", None)
    assert related == (None if peer.modern or method != "result" or "error" in heard.message else {"taskId": id})
    if result.get("_meta") == {}:
        del result["_meta"]
    return heard


async def ended(peer: Peer, **arguments: Any) -> list[Heard]:
    """A task from its beginning to its end."""
    id, first = await begin(peer, **arguments)
    steps = [first, await about(peer, "get", id), await about(peer, "get", id)]
    return steps if peer.modern else [*steps, await about(peer, "result", id)]


@feature(
    "Tasks",
    "a call that becomes a task, its state and its result",
    note=OWN_ID + " Progress ends where the call becomes a task: the extension has none in tasks, and we carry none.",
)
async def task(case: Case) -> None:
    steps = await case.same(ended, knowing(case))
    states = [step["result"].get("task", step["result"]).get("status") for step in steps[:3]]
    assert states == ["working", "working", "completed"]
    assert "Done at last – é." in json.dumps(steps[-1], ensure_ascii=False)


@feature("Tasks", "a tool that fails, an error: in a task", note=OWN_ID)
async def failed_task(case: Case) -> None:
    for how, word in (("fail", "It failed."), ("refuse", "Refused – é.")):
        steps = await case.same(lambda peer, how=how: ended(peer, how=how), knowing(case))
        assert word in json.dumps(steps[-1], ensure_ascii=False)


@feature("Tasks", "waiting for the result", cannot=dict.fromkeys(MODERN_CALLER, "no waiting"), note=OWN_ID)
async def task_result(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        id, _ = await begin(peer)
        return await about(peer, "result", id)

    assert (await case.same(look))["result"]["content"][0]["text"] == "Done at last – é."


@feature("Tasks", "cancellation", note=OWN_ID)
async def cancelled_task(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        id, _ = await begin(peer, key=uuid.uuid4().hex)
        steps = [await about(peer, "cancel", id), await about(peer, "get", id), await about(peer, "cancel", id)]
        if "error" in steps[-1].message:
            steps[-1].message["error"].pop("message")
        return steps

    steps = await case.same(look, knowing(case))
    assert steps[1]["result"]["status"] == "cancelled"
    assert ("error" in steps[2]) == (case.column.caller == "legacy")


@feature("Tasks", "a question in the middle of a task", note=OWN_ID + " Between eras, so is the key of a question.")
async def task_asks(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        id, first = await begin(peer, how="ask")
        if not peer.modern:
            asked, heard = await peer.answering("tasks/result", {"taskId": id}, form_reply)
            related = [question["params"]["_meta"].pop(PREFIX + "related-task") for question in asked]
            assert related == [{"taskId": id}]
            heard.result.pop("_meta")
            return {"asked": asked, **heard.message, "id": 0}
        heard = await about(peer, "get", id)
        requests = heard.result.pop("inputRequests")
        answers = dict.fromkeys(requests, form_reply("", {}))
        updated = await about(peer, "update", id, inputResponses=answers)
        while (end := await about(peer, "get", id)).result["status"] != "completed":
            pass
        return {"asked": list(requests.values()), "steps": [first.result, heard.result, updated.result, end.result]}

    seen = await case.same(look, knowing(case, elicitation={}))
    assert seen["asked"] == [{"method": "elicitation/create", "params": offers.FORM}]
    assert "Ada" in json.dumps(seen)


@feature("Tasks", "news of a task", cannot={"legacy-modern": "only to those"}, note=OWN_ID)
async def task_news(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        key = uuid.uuid4().hex
        if not peer.modern:
            async with peer.listening() as stream:
                id, _ = await begin(peer, key=key)
                await call("finish", key=key)(peer)
                news = await stream.next()
        else:
            id, _ = await begin(peer, key=key)
            async with peer.listening(tasks=[id]) as stream:
                await call("finish", key=key)(peer)
                news = await stream.next()
        assert news["params"].pop("taskId") == id
        return news

    seen = await case.same(look, knowing(case))
    assert seen["params"]["status"] == "completed"


@feature("Tasks", "list", cannot=dict.fromkeys(MODERN_CALLER, "no list"), note=OWN_ID)
async def task_list(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        ids = [(await begin(peer))[0] for _ in range(3)]
        heard = await peer.request("tasks/list", {})
        assert [one.pop("taskId") for one in heard.result["tasks"]] == ids
        for one in heard.result["tasks"]:
            one.pop("statusMessage", None)
        return heard

    assert len((await case.same(look))["result"]["tasks"]) == 3


@feature(
    "Tasks",
    "a tool that runs only as a task is refused to those who do not know tasks",
    cannot={"legacy-modern": "server's word"},
)
async def only_task(case: Case) -> None:
    async def look(peer: Peer) -> Any:
        error = (await call("only_job")(peer)).error
        return {"code": error["code"], "data": error.get("data")}

    assert (await case.same(look))["code"] == (-32021 if case.column.caller == "modern" else -32601)


@feature("Tasks", "a call whose caller does not know tasks is answered at once")
async def no_task(case: Case) -> None:
    assert (await case.same(call("job")))["result"]["content"][0]["text"] == "Done at once."
