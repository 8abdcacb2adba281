"""Words of servers, callers, users and providers that would be more than words stay words, wherever they are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browser import Watched, looked_at, watched
from tests.console.hostile import ALL, TOKEN, WORDS, Hostile, form, offer, open_hostile


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hostile]:
    """A gateway around which nobody has anything good in mind."""
    with open_hostile(tmp_path_factory.mktemp("hostile")) as opened:
        yield opened


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
def console(browser: Browser, hostile: Hostile) -> Generator[Watched]:
    """Its console."""
    with watched(browser, hostile.base) as one:
        one.sign_in(TOKEN)
        yield one


@pytest.fixture
def page(console: Watched) -> Generator[Watched]:
    """The same, for one test, after which nothing went wrong."""
    yield console
    wrong, console.wrong = console.wrong, []
    assert wrong == []


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


SHOWN = {
    "overview": ".needs",
    "servers": "main",
    "servers/mean": ".rows.tools",
    "servers/mean?tab=log": "main",
    "servers/gone": "main",
    "servers/own": "main",
    "tools": ".rows.tools",
    "tools?q=script": "main",
    "people": "tbody",
    "people/eve": "tbody",
    "people?tab=keys": "tbody",
    "people?tab=limits": "main",
    "calls": "tbody",
    "calls?outcome=failed": "tbody",
    "questions": ".question",
    "programs": ".problem",
    "connections": "main",
    "usage": "main",
    "audit": "tbody",
}
"""Where others have something to say, and where on the page it stands."""


def test_what_is_shown_of_others_stays_text(page: Watched) -> None:
    for place, where in SHOWN.items():
        shown = page.open(place)
        shown.locator(where).first.wait_for()
        is_inert(shown)


def test_a_long_list_is_leafed_through_and_stays_text(page: Watched) -> None:
    shown = page.open("tools")
    rows, first = shown.locator(".rows.tools > li"), shown.locator(".rows.tools a").first.inner_text()
    expect(rows).to_have_count(50)
    shown.get_by_role("button", name="Next").click()
    expect(shown.get_by_role("navigation", name="Pages").get_by_role("status")).to_contain_text("Page 2 of ")
    expect(shown.get_by_role("link", name=first, exact=True)).to_have_count(0)
    expect(shown.get_by_role("button", name="Next")).to_be_disabled()
    is_inert(shown)
    shown.get_by_role("button", name="Previous").click()

    expect(shown.locator(".rows.tools a").first).to_have_text(first)


def test_what_registries_other_clients_and_threads_say_stays_text(page: Watched) -> None:
    shown = page.open("people?tab=threads")
    shown.get_by_label("User").select_option("eve")
    expect(shown.get_by_role("region", name="Threads")).to_contain_text(WORDS[0])
    is_inert(shown)
    shown = page.open("add?from=registry")
    shown.get_by_label("Search the registry").fill("mean")
    expect(shown.locator(".rows").first).to_contain_text(WORDS[0])
    shown.locator(".rows li", has_text=WORDS[0]).first.get_by_role("button").click()
    expect(shown.get_by_role("dialog").get_by_label("X-Key")).to_be_visible()
    is_inert(shown)
    shown = page.open("add?from=clients")
    expect(shown.locator(".rows").first).to_contain_text(WORDS[0])
    is_inert(shown)


def test_what_is_asked_stays_text_and_leads_only_to_the_web(page: Watched, hostile: Hostile) -> None:
    shown = page.open("questions")
    asked = shown.locator(".question")
    expect(asked).to_have_count(len(WORDS) + 1)
    assert {*WORDS, ALL} == set(asked.locator(".message").all_text_contents())
    hrefs = shown.evaluate("[...document.querySelectorAll('.question a')].map((one) => one.getAttribute('href'))")
    assert hrefs == ["https://evil.example/track.png"]
    texts = asked.filter(has=shown.locator("textarea")).first
    assert set(WORDS) <= set(texts.locator(".field-label").all_text_contents())
    assert set(WORDS) <= set(texts.locator("option").all_text_contents())
    is_inert(shown)

    shown = page.open("tools/mean__ask")
    shown.get_by_label("Arguments as JSON").fill(json.dumps({"asks": form(ALL)}))
    shown.get_by_role("button", name="Call", exact=True).click()
    expect(shown.locator(".question .message")).to_have_text(ALL)
    is_inert(shown)
    shown.get_by_role("button", name="Answer").click()
    expect(shown.get_by_label("Text of the result", exact=True)).to_contain_text("accept")
    is_inert(shown)


def test_people_are_called_what_they_may_be_called_and_it_stays_text(page: Watched, hostile: Hostile) -> None:
    shown = page.open("people")
    expect(shown.get_by_role("region", name="People")).to_contain_text("corp:javascript:window.pwned=1")
    expect(shown.locator("tbody tr")).to_have_count(len(WORDS) + 1)
    is_inert(shown)
    for word in WORDS:
        if not shown.get_by_role("dialog").is_visible():
            shown.get_by_role("button", name="Add somebody").click()
        shown.get_by_label("Name").fill(word)
        shown.get_by_role("button", name="Add", exact=True).click()
        if re.fullmatch(r"[\w:.=]+", word):
            expect(shown.get_by_role("button", name=f"Forget {word}", exact=True)).to_be_visible()
        else:
            expect(shown.get_by_role("alert")).to_contain_text("cannot be a user's name")
        is_inert(shown)


def test_what_providers_say_and_send_back_stays_text(browser: Browser, page: Watched, hostile: Hostile) -> None:
    shown = page.open("connections")
    said_no = {"error": WORDS[0], "error_description": WORDS[1], "error_uri": WORDS[10]}
    hostile.git.sent_back = lambda sent: {**sent, **said_no}
    shown.get_by_role("button", name="Sign in to git").click()
    expect(shown.locator(".toast.bad")).to_contain_text("failed")
    is_inert(shown)
    hostile.git.sent_back = lambda sent: sent
    shown.get_by_role("button", name="Sign in to git").click()
    expect(shown.get_by_role("region", name="Connections")).to_contain_text(WORDS[2].replace(" ", "_"))
    expect(shown.get_by_role("region", name="Connections")).to_contain_text(f"as {WORDS[0]} at")
    is_inert(shown)
    for other in shown.context.pages[1:]:
        assert WORDS[0] not in other.content()
        is_inert(other)
        other.close()

    with watched(browser, hostile.base) as stranger:
        entry = stranger.open()
        expect(entry.get_by_role("link", name="Continue with corp")).to_be_visible()
        assert looked_at(entry, "signing in elsewhere") == []
        names = ("error", "error_description", "error_uri", "state", "code", "iss")
        for path in ("/oauth/callback", "/console/signed-in", "/console/sign-in/%3Cscript%3E"):
            for at in range(0, len(WORDS), len(names)):
                entry.goto(f"{hostile.base}{path}?{urlencode(dict(zip(names, WORDS[at:], strict=False)))}")
                assert "pwned" not in entry.content()
                is_inert(entry)
        assert looked_at(entry, "a sign-in that failed") == []


def test_what_changed_is_shown_as_text_and_can_be_agreed_to(page: Watched, hostile: Hostile) -> None:
    shown = page.open("servers/held")
    offer(hostile.offered, f"\n{WORDS[2]} now")
    expect(shown.get_by_role("heading", name="Waits for approval")).to_be_visible()
    expect(shown.locator(".diff").first).to_contain_text(f"{WORDS[2]} now")
    is_inert(shown)
    waiting = shown.locator(".review")
    before = waiting.count()
    shown.get_by_role("button", name="Approve").first.click()

    expect(waiting).to_have_count(before - 1)


def test_an_address_of_the_console_may_say_anything(page: Watched) -> None:
    shown = page.open("servers")
    for word in WORDS:
        shown.evaluate("place => { location.hash = place; }", f"#/tools/{word}")
        shown.locator("main h1", has_not_text="Servers").wait_for()
        is_inert(shown)
