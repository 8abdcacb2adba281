"""Words of servers and of users that would be markup, scripts or links stay words, wherever the console shows them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browser import DESK, Running, Watched, running, watched
from tests.harness import make_config, plain_server
from tests.install.marketplace.registry_server import FakeRegistry, item, serving
from trunkline.config.options import Config
from trunkline.tenancy.threads import Thread

WORDS = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    "<svg><script>window.pwned=1</script></svg>",
    '"><script>window.pwned=1</script>',
    "'><img src=x onerror=window.pwned=1>",
    "</textarea><script>window.pwned=1</script>",
    "</title><script>window.pwned=1</script>",
    "</pre><iframe src=javascript:parent.pwned=1></iframe>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "javascript:window.pwned=1",
    " javascript:window.pwned=1",
    "JaVaScRiPt:window.pwned=1",
    "java\tscript:window.pwned=1",
    "javascript://example.com/%0awindow.pwned=1",
    "data:text/html,<script>window.pwned=1</script>",
    "data:image/svg+xml,<svg onload=window.pwned=1>",
    "vbscript:window.pwned=1",
    "https://evil.example/track.png",
    "//evil.example/track.js",
    "<link rel=stylesheet href=https://evil.example/a.css>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<base href=https://evil.example/>",
    "<a href=javascript:window.pwned=1>press</a>",
    "<form action=https://evil.example/><button>press</button></form>",
    "<style>@import 'https://evil.example/a.css'</style>",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1}`;window.pwned=1;//",
    "__proto__",
    "\u202e<b>constructor</b>\ufeff&lt;script&gt;",
)
ALL = "\n".join(WORDS)


def definition(more: str = "") -> dict[str, Any]:
    """A tool that says such words wherever it can."""
    fields = {word: {"type": "string", "title": word, "description": word, "default": word} for word in WORDS}
    return {
        "name": "echo",
        "title": ALL,
        "description": ALL + more,
        "inputSchema": {
            "type": "object",
            "title": ALL,
            "required": ["words"],
            "properties": {
                "words": {"type": "array", "items": {"type": "string"}, "default": list(WORDS), "description": ALL},
                "one": {"enum": list(WORDS), "title": WORDS[0]},
                "nested": {"type": "object", "title": WORDS[1], "description": ALL, "properties": fields},
            },
        },
        "outputSchema": {"type": "object", "description": ALL},
        "annotations": {"title": ALL, "readOnlyHint": True},
        "icons": [{"src": word, "mimeType": "image/svg+xml"} for word in WORDS],
    }


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of what the server offers."""
    file = tmp_path_factory.mktemp("offered") / "tools.json"
    file.write_text(json.dumps([definition()]))
    return file


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, offered: Path) -> Generator[Running]:
    """A gateway whose servers and users have nothing good in mind."""
    home = tmp_path_factory.mktemp("hostile")
    clients_of(home, words())
    with pytest.MonkeyPatch.context() as patch, running(scene(home, offered)) as opened:
        patch.setenv("HOME", str(home / "user"))
        patch.chdir(home)
        opened.do(people(opened))
        yield opened


def words() -> dict[str, Any]:
    """What another client has: servers that are called such words."""
    return {word: {"url": f"https://evil.example/{number}", "name": word} for number, word in enumerate(WORDS)}


def clients_of(home: Path, servers: dict[str, Any]) -> None:
    (home / "user" / ".cursor").mkdir(parents=True)
    (home / "user" / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def entries() -> list[Any]:
    """What a registry says of servers, in such words."""
    return [
        item(
            f"com.example/mean{number}",
            title=word,
            description=word,
            repository=None,
            packages=None,
            remotes=[{"type": "streamable-http", "url": f"https://evil.example/{number}", "headers": [wanted(word)]}],
        )
        for number, word in enumerate(WORDS)
    ]


def wanted(word: str) -> dict[str, Any]:
    """A value that an entry wants to know."""
    return {"name": "X-Key", "description": word, "isRequired": True, "default": word, "choices": [word, "other"]}


@asynccontextmanager
async def scene(home: Path, offered: Path) -> AsyncGenerator[Config]:
    """The gateway, and what is around it."""
    servers = {
        "mean": plain_server(DESK, str(offered), trust="follow"),
        "held": plain_server(DESK, str(offered), trust="hold"),
        "gone": {"command": f"/nowhere/{WORDS[1]}", "args": list(WORDS)},
    }
    async with serving(FakeRegistry(*entries())) as near:
        sections = {"audit": {"enabled": True}, "registries": {"official": {"enabled": False}, "near": {"url": near}}}
        yield make_config(home / "kept", servers, allow_anonymous=True, sections=sections)


async def people(opened: Running) -> None:
    """Somebody whose keys and servers are called such words."""
    tenancy = opened.gateway.hub.relay.tenancy
    await tenancy.people.add_user("eve", "member", {})
    for number, word in enumerate(filter(str.isprintable, WORDS)):
        await tenancy.threads.put(Thread(f"{number} {word}"[:60], "eve", (), (), (word[:60],)), of_user=True)
    for word in WORDS:
        await tenancy.people.make_key("eve", name=word[:60])
    said = {
        "name": "own",
        "url": "https://own.example/mcp",
        "display_name": WORDS[0],
        "description": ALL,
    }
    await opened.gateway.hub.relay.tenants.register({**said, "tags": [WORDS[1]]}, user="")


STRANGE = """() => [
    ...document.querySelectorAll("body script, iframe, object, embed, base, body meta, body style, body link"),
    ...[...document.querySelectorAll("svg")]
        .filter((one) => !["icon", "logo", "lines"].includes(one.getAttribute("class"))),
    ...[...document.images].filter((one) => !one.src.startsWith("data:image/png;base64,")),
    ...[...document.links].filter((one) => !["http:", "https:"].includes(one.protocol)),
    ...[...document.querySelectorAll("*")].filter((one) => one.getAttributeNames().some((it) => it.startsWith("on"))),
].map((one) => one.outerHTML)"""
"""Whatever no page of ours has."""


def is_inert(page: Page) -> None:
    """Nothing of it became a part of the page."""
    assert page.evaluate("window.pwned") is None
    assert page.evaluate(STRANGE) == []


@pytest.fixture(scope="module")
def page(browser: Browser, hostile: Running) -> Generator[Watched]:
    """Its console."""
    with watched(browser, hostile.base) as one:
        yield one


def test_what_a_tool_says_of_itself_and_answers_stays_text(page: Watched) -> None:
    shown = page.open("tools/mean__echo")
    expect(shown.locator(".said")).to_contain_text(WORDS[0])
    is_inert(shown)
    shown.get_by_text("The same call elsewhere").click()
    shown.get_by_role("button", name="Call", exact=True).click()
    expect(shown.get_by_text("The tool says it failed")).to_be_visible()

    texts = shown.locator(".result > .code pre").all_inner_texts()
    assert set(WORDS[:9]) <= set(texts)
    hrefs = shown.evaluate("[...document.querySelectorAll('.result a')].map((one) => one.getAttribute('href'))")
    assert hrefs == ["https://evil.example/track.png"]
    is_inert(shown)


PLACES = (
    "overview",
    "servers",
    "servers/mean?tab=log",
    "servers/gone",
    "servers/own",
    "tools",
    "tools?q=script",
    "people/eve",
    "people?tab=keys",
    "people?tab=threads",
    "add?from=registry",
    "add?from=clients",
    "calls",
    "questions",
    "programs",
    "connections",
    "usage",
    "audit",
)


def test_what_is_shown_of_others_stays_text(page: Watched) -> None:
    for place in PLACES:
        shown = page.open(place)
        if place == "people?tab=threads":
            shown.get_by_label("User").select_option("eve")
            expect(shown.get_by_role("region", name="Threads")).to_contain_text(WORDS[0])
        if place == "add?from=registry":
            shown.get_by_label("Search the registry").fill("mean")
            expect(shown.locator(".rows").first).to_contain_text(WORDS[0])
            shown.locator(".rows li", has_text=WORDS[0]).first.get_by_role("button").click()
            expect(shown.get_by_role("dialog").get_by_label("X-Key")).to_be_visible()
        if place == "add?from=clients":
            expect(shown.locator(".rows").first).to_contain_text(WORDS[0])
        is_inert(shown)


def test_what_changed_is_shown_as_text_and_can_be_agreed_to(page: Watched, offered: Path) -> None:
    shown = page.open("servers/held")
    offered.write_text(json.dumps([definition(f"\n{WORDS[2]} now")]))
    expect(shown.get_by_role("heading", name="Waits for approval")).to_be_visible()
    expect(shown.locator(".diff")).to_contain_text(f"{WORDS[2]} now")
    is_inert(shown)
    shown.get_by_role("button", name="Approve").first.click()

    expect(shown.get_by_role("heading", name="Waits for approval")).to_have_count(0)


def test_an_address_of_the_console_may_say_anything(page: Watched) -> None:
    shown = page.open("servers")
    for word in WORDS:
        shown.evaluate("place => { location.hash = place; }", f"#/tools/{word}")
        shown.locator("main h1", has_not_text="Servers").wait_for()
        is_inert(shown)
