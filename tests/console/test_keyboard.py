"""Whole journeys through the console by keyboard alone: one always sees where one is, and is never left nowhere."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.browser import Running, running, watched
from tests.console.house import ECHO, TOKEN, House, definition
from tests.harness import faulty_http, make_config

MOST_STOPS = 60
"""Tabs after which something is not to be reached."""
STOP = """(wanted) => {
    const one = document.activeElement, box = one.getBoundingClientRect(), drawn = getComputedStyle(one);
    const seen = drawn.outlineStyle !== "none" && parseFloat(drawn.outlineWidth) >= 1;
    const inside = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    const unseen = one === document.body || (seen && inside) ? "" : one.outerHTML.slice(0, 200);
    return [unseen, wanted === one, wanted.isConnected];
}"""
"""What has the focus, if one does not see that it has; whether it is what is wanted, and whether that is still here."""


class Keyboard:
    """Somebody without a mouse."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def reach(self, wanted: Locator) -> None:
        """Go on with Tab until something has the focus; one sees every stop on the way."""
        # Finding something by its role takes the browser long: it is done once, and again if the page was drawn anew.
        found = wanted.element_handle()
        for _ in range(MOST_STOPS):
            self.page.keyboard.press("Tab")
            unseen, there, stays = self.page.evaluate(STOP, found)
            assert unseen == ""
            if not stays:
                found = wanted.element_handle()
                there = found.evaluate("one => one === document.activeElement")
            if there:
                return
        raise AssertionError(f"{wanted} is not to be reached")

    def press(self, wanted: Locator, key: str = "Enter") -> None:
        """Go there, and press a key."""
        self.reach(wanted)
        self.page.keyboard.press(key)

    def write(self, wanted: Locator, text: str) -> None:
        """Go to a field, and type."""
        self.reach(wanted)
        self.page.keyboard.type(text)

    def visit(self, name: str) -> None:
        """Go to another page."""
        self.follow(self.page.locator(".side").get_by_role("link", name=name), name)

    def follow(self, link: Locator, title: str) -> None:
        """Go where a link leads."""
        self.press(link)
        self.arrive(title)

    def arrive(self, title: str) -> None:
        """Be on another page; whoever does not see it is told."""
        expect(self.page.locator("h1")).to_have_text(title)
        expect(self.page.locator("h1")).to_be_focused()


@pytest.fixture
def empty(tmp_path: Path) -> Generator[Running]:
    """A gateway with nothing in it."""
    with running(make_config(tmp_path, {})) as opened:
        yield opened


def test_from_an_empty_gateway_to_a_called_tool(browser: Browser, empty: Running) -> None:
    with faulty_http() as url, watched(browser, empty.base) as console:
        page, keys = console.open(), Keyboard(console.page)
        keys.follow(page.get_by_role("link", name="By its address"), "Add a server")
        keys.write(page.get_by_role("textbox", name="Address"), url)
        keys.write(page.get_by_role("textbox", name="Name"), "far")
        page.keyboard.press("Enter")
        keys.arrive("far")
        keys.follow(page.get_by_role("link", name="echo").first, "echo")
        keys.write(page.get_by_label("text").first, "hello")
        keys.press(page.get_by_role("button", name="Call", exact=True))
        expect(page.locator(".result")).to_contain_text("hello")
        keys.reach(page.get_by_label("Text of the result"))


@pytest.fixture
def keys(browser: Browser, house: House) -> Generator[Keyboard]:
    """Somebody without a mouse who signs in."""
    given = ["clipboard-read", "clipboard-write"]
    with watched(browser, house.base, permissions=given) as console:
        page = console.open()
        one = Keyboard(page)
        one.write(page.get_by_label("Key"), TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Overview")
        yield one


def test_a_key_is_made_copied_and_revoked(keys: Keyboard, house: House) -> None:
    house.key_of("kay")
    page = keys.page
    keys.visit("Keys")
    make, dialog = page.get_by_role("button", name="Make a key"), page.get_by_role("dialog")
    keys.press(make)
    expect(dialog.get_by_label("User")).to_be_focused()
    page.keyboard.press("Escape")
    expect(make).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_label("User")).to_be_focused()
    page.keyboard.type("kay")
    keys.write(dialog.get_by_label("Name"), "typed")
    keys.press(dialog.get_by_role("combobox", name="Ends"), "ArrowDown")
    keys.press(dialog.get_by_label("It may only read"), "Space")
    keys.press(dialog.get_by_role("button", name="Make it"))
    keys.press(dialog.get_by_role("button", name="Copy the key"))
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == dialog.locator("code").inner_text()
    keys.press(dialog.get_by_role("button", name="I have it"))
    expect(make).to_be_focused()
    expect(page.get_by_role("row", name="typed")).to_contain_text("only read")

    keys.press(page.get_by_role("button", name="Revoke typed"))
    expect(dialog.get_by_role("button", name="Leave it")).to_be_focused()
    keys.press(dialog.get_by_role("button", name="Revoke"))
    expect(page.get_by_role("row", name="typed")).to_have_count(0)
    expect(page.locator("h1")).to_be_focused()


def test_a_question_is_answered(keys: Keyboard, house: House) -> None:
    house.call("desk__book", {"day": "Friday"})
    page = keys.page
    # What has the focus may go out of sight when something new comes in above it.
    expect(page.locator(".needs li", has_text="For how many?")).to_be_visible()
    keys.visit("Questions")
    keys.write(page.get_by_label("How many people?"), "4")
    keys.press(page.get_by_role("button", name="Answer"))

    expect(page.get_by_text("Nobody asks you anything")).to_be_visible()
    expect(page.locator("h1")).to_be_focused()


def test_a_question_of_a_tool_that_one_tries_is_answered_in_place(keys: Keyboard) -> None:
    page = keys.page
    keys.visit("Tools")
    keys.follow(page.get_by_role("link", name="desk__book"), "desk__book")
    keys.write(page.get_by_label("day"), "Friday")
    call, people = page.get_by_role("button", name="Call", exact=True), page.get_by_label("How many people?")
    keys.press(call)
    expect(people).to_be_visible()  # the button to stop the call goes when it asks
    keys.write(people, "4")
    keys.press(page.get_by_role("button", name="Answer"))

    expect(page.get_by_label("Text of the result")).to_contain_text('"people": 4')
    expect(call).to_be_focused()
    keys.press(page.get_by_text("The same call elsewhere"))
    keys.press(page.get_by_role("tab", name="curl"), "ArrowRight")
    expect(page.get_by_role("tab", name="Python")).to_be_focused()
    expect(page.get_by_label("The call with python", exact=True)).to_be_visible()


def test_a_change_is_approved(keys: Keyboard, house: House) -> None:
    page = keys.page
    house.offer(ECHO, definition("whisper", "Says it in a low voice."))
    row = page.locator(".needs li", has_text="waits for approval")
    keys.follow(row.get_by_role("link", name="Review"), "held")
    keys.press(page.get_by_role("button", name="Approve whisper"))

    expect(page.locator(".review")).to_have_count(0)
    expect(page.locator("h1")).to_be_focused()
    keys.press(page.get_by_role("tab", name="Tools"), "ArrowRight")
    expect(page.get_by_role("tab", name="Check")).to_be_focused()
    keys.press(page.get_by_role("button", name="Check now"))
    expect(page.get_by_text("All is well.")).to_be_visible()
    house.offer(ECHO)
