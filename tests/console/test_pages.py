"""Every page of the console in a real browser: in both themes and widths, for everybody, and no word to strangers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.console.browser import NARROW, WIDE, Running, Watched, counted, findings, looked_at, watched
from tests.console.house import ECHO, House, definition
from trunkline import CallNext, FormField, SelectOption, Tool, ToolContext, ToolResult

PLACES = {
    "overview": "Overview",
    "servers": "Servers",
    "servers/desk": "desk",
    "servers/desk?tab=check": "desk",
    "servers/desk?tab=log": "desk",
    "servers/gone": "gone",
    "add": "Add a server",
    "add?from=registry": "Add a server",
    "add?from=clients": "Add a server",
    "add?from=command": "Add a server",
    "tools": "Tools",
    "tools?q=parcel": "Tools",
    "tools/desk__send_parcel": "desk__send_parcel",
    "calls": "Calls",
    "questions": "Questions",
    "programs": "Programs",
    "connections": "Connections",
    "keys": "Keys",
    "people": "People",
    "people?tab=keys": "People",
    "people?tab=threads": "People",
    "people?tab=profiles": "People",
    "people?tab=limits": "People",
    "usage": "Usage",
    "audit": "Audit",
}
"""Where pages are, and what each is called."""

MOST_BYTES = 60_000


@pytest.mark.parametrize("place", PLACES)
def test_every_page_is_whole_in_any_theme_and_width(console: Watched, place: str) -> None:
    page = console.open(place)
    expect(page.locator("h1")).to_have_text(PLACES[place])

    assert looked_at(page, place) == []


FULL = {
    "overview": ".needs li",
    "servers/held": ".review",
    "questions": ".question",
    "programs": ".card",
    "connections": ".needs",
    "people": "tbody tr",
    "people?tab=keys": "tbody tr",
    "people/lou": "tbody tr",
    "usage": "tbody tr",
    "audit": "tbody tr",
    "calls": "tbody tr",
}
"""Pages of which much is to be seen, and what shows that it is there."""
DIALOGS = {
    "keys": "Make a key",
    "people": "Add somebody",
    "people?tab=people": "Forget lou",
    "add?from=registry": "Add",
}
TRIED = {"book": ".question", "draw": ".result", "count": ".result", "fail": ".result"}


@pytest.fixture(scope="module")
def full(house: House) -> Generator[House]:
    """A gateway where much waits and much happened."""
    house.offer(ECHO, definition("murmur", "Says it so that nobody understands."))
    house.key_of("lou")
    house.call("desk__book", {"day": "Friday"})
    house.program("await shop__look(item=2)\nraise ValueError('no more')")
    yield house
    house.offer(ECHO)
    for question in house.ask("GET", "questions")["questions"]:
        house.ask("POST", f"questions/{question['id']}", {"action": "cancel"})


@pytest.mark.parametrize("place", FULL)
def test_what_pages_show_when_there_is_much_is_whole_as_well(admin: Watched, full: House, place: str) -> None:
    page = admin.open(place)
    expect(page.locator(FULL[place]).first).to_be_visible()

    assert looked_at(page, place) == []


def test_a_call_and_its_way_are_whole(admin: Watched, full: House) -> None:
    page = admin.open("calls")
    page.locator("tbody a").first.click()
    expect(page.locator(".path li").first).to_be_visible()

    assert looked_at(page, "a call") == []


@pytest.mark.parametrize("place", DIALOGS)
def test_dialogs_are_whole(admin: Watched, full: House, place: str) -> None:
    page = admin.open(place)
    page.get_by_role("button", name=DIALOGS[place]).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    admin.settle()
    wrong = looked_at(page, f"{place}: {DIALOGS[place]}")
    page.keyboard.press("Escape")

    assert wrong == []


@pytest.mark.parametrize("tool", TRIED)
def test_what_a_tool_answers_or_asks_is_whole(admin: Watched, full: House, tool: str) -> None:
    page = admin.open(f"tools/desk__{tool}")
    if tool == "book":
        page.get_by_label("day").fill("Friday")
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.locator(TRIED[tool]).first).to_be_visible()

    assert looked_at(page, f"{tool}, tried") == []


FIELDS = [
    FormField("name", "Name", required=True),
    FormField("password", "Password", "password", required=True),
    FormField("cups", "Cups", "integer"),
    FormField("sugar", "With sugar", "boolean"),
    FormField("kind", "Kind", "select", options=(SelectOption("black", "Black"), SelectOption("green", "Green"))),
]


def test_the_page_for_an_answer_that_no_model_may_see_is_whole_and_sends_it(browser: Browser, house: House) -> None:
    got: list[Any] = []

    async def ask(tool: Tool, params: Any, context: ToolContext, call_next: CallNext) -> ToolResult:
        if params == {"item": 99} and context.elicitation is not None:
            got.append(await context.elicitation.form("Which tea?", FIELDS))
        return await call_next()

    async def use() -> None:
        house.running.gateway.hub.use(ask)

    house.running.do(use())
    asked = house.call("shop__look", {"item": 99})
    (question,) = asked.result["inputRequests"].values()
    with watched(browser, house.base) as console:
        page = console.page
        page.goto(question["params"]["url"])
        wrong = looked_at(page, "a question on its own page")
        page.get_by_label("Name").fill("Ann")
        page.get_by_label("Password").fill("sesame")
        page.get_by_role("button", name="Send").click()
        expect(page.locator("h1")).to_have_text("Thank you")

    assert wrong == []
    house.retry(asked, "shop__look", {"item": 99})
    assert [one["name"] for one in got] == ["Ann"]


def test_the_first_load_is_small_over_all(browser: Browser, desk: Running) -> None:
    with watched(browser, desk.base) as console, counted(console.page) as sizes:
        page = console.open()
        page.locator(".figures").wait_for()
        page.wait_for_load_state("load")

    assert len(sizes) > 10
    assert sum(sizes) <= MOST_BYTES, sizes


ASKED = ["connections", "me", "questions", "review", "series?range=1h", "servers", "stats"]


def test_what_the_overview_shows_is_asked_for_once_and_none_of_it_waits_for_another(
    browser: Browser, desk: Running
) -> None:
    api, held, asked = f"{desk.base}/api/v1/", list[Route](), list[str]()
    with watched(browser, desk.base) as console, ExitStack() as begun:
        page = console.page
        page.on("request", lambda one: asked.append(one.url.removeprefix(api)) if one.url.startswith(api) else None)
        page.route(
            lambda url: url.startswith(api) and not url.endswith(("/me", "/events")), lambda route: held.append(route)
        )
        for path in ASKED:
            begun.enter_context(page.expect_request(f"{api}{path}"))
        page.goto(f"{desk.base}/")
        begun.close()
        for route in held:
            route.continue_()
        page.locator(".figures .plot").first.wait_for()

    assert sorted(asked) == sorted([*ASKED, "events"])


TURNS = """() => new Promise((done) => {
    let left = 50;
    const turn = () => (left-- ? setTimeout(turn) : done());
    turn();
})"""
"""Lets the page have its turn so often."""


def test_a_page_on_which_nothing_happens_does_nothing(console: Watched) -> None:
    page = console.open()
    page.locator(".figures .plot").first.wait_for()
    wire: Any = page.context.new_cdp_session(page)
    wire.send("Profiler.enable")
    wire.send("Profiler.startPreciseCoverage", {"callCount": True, "detailed": True})
    page.evaluate(TURNS)
    scripts: list[dict[str, Any]] = wire.send("Profiler.takePreciseCoverage")["result"]
    wire.detach()

    (shell,) = [one["functions"] for one in scripts if one["url"].endswith("/app.js")] or [[]]
    assert [one["functionName"] for one in shell if one["ranges"][0]["count"]] == []


HIDDEN = """hidden => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_tab_that_nobody_sees_keeps_no_connection_and_looks_again_once_it_is_seen(console: Watched) -> None:
    page = console.open("servers")
    expect(page.get_by_text("Live", exact=True)).to_be_attached()
    with page.expect_event("requestfailed", lambda one: one.url.endswith("/events")):
        page.evaluate(HIDDEN, True)
    with page.expect_request("**/api/v1/events"), page.expect_request("**/api/v1/servers"):
        page.evaluate(HIDDEN, False)

    expect(page.get_by_text("Live", exact=True)).to_be_attached()


def test_a_theme_that_was_chosen_stays(console: Watched) -> None:
    page = console.open()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)

    page.get_by_role("button", name="Colours: as the system").click()
    page.get_by_role("button", name="Colours: light").click()
    dark = page.evaluate(ground)
    page.reload()
    page.get_by_role("button", name="Colours: dark").click()

    assert dark != light
    assert page.evaluate(ground) == light


def test_every_page_is_reached_by_keyboard_alone(console: Watched) -> None:
    page = console.open("audit")
    page.reload()
    page.locator("main h1").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    page.locator(".brand").focus()
    for name in NAVIGATION:
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED) == [name, True]
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(name)
        expect(page.locator("h1")).to_be_focused()  # whoever does not see it is told of the new page
        page.locator(".side").get_by_role("link", name=name, exact=True).focus()


NAVIGATION = [title for place, title in PLACES.items() if "/" not in place and "?" not in place and place != "add"]
FOCUSED = """[
    document.activeElement.textContent.trim(),
    getComputedStyle(document.activeElement).outlineStyle !== "none",
]"""
"""What has the focus, and whether one sees that."""


def test_a_phone_has_the_other_pages_behind_a_button(console: Watched) -> None:
    page = console.open()
    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    page.get_by_role("button", name="More").click()
    assert findings(page) == []
    page.get_by_role("dialog").get_by_role("link", name="Keys").click()

    expect(page.locator("h1")).to_have_text("Keys")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.set_viewport_size({"width": WIDE["width"], "height": WIDE["height"]})


def test_on_a_phone_cards_leave_out_what_says_nothing(console: Watched) -> None:
    page = console.open("servers")
    unknown = page.get_by_role("row").filter(has_text="gone").locator("td[data-title=Average]")
    expect(unknown).to_be_visible()
    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    expect(unknown).to_be_hidden()
    page.set_viewport_size({"width": WIDE["width"], "height": WIDE["height"]})
