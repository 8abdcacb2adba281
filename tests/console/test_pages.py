"""Every page of the console in a real browser: in both themes and widths, for everybody, and no word to strangers."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tests.console.browser import NARROW, WIDE, Running, Watched, counted, findings, watched

PLACES = {
    "overview": "Overview",
    "servers": "Servers",
    "servers/desk": "desk",
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
    "usage": "Usage",
    "audit": "Audit",
}
"""Where pages are, and what each is called."""

MOST_BYTES = 60_000
RULES: dict[str, tuple[str, ...]] = {"light": (), "dark": ("color-contrast",)}
"""What axe looks at; a theme changes colours alone."""
ON_PHONE = ("overview", "servers", "tools/desk__send_parcel", "calls")
"""What axe looks at on a phone as well: a page of each kind."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_page_is_whole_in_any_theme_and_width(
    browser: Browser, desk: Running, theme: str, size: dict[str, int]
) -> None:
    wrong: dict[str, object] = {}
    with watched(browser, desk.base, color_scheme=theme, viewport=size) as console:
        for place, title in PLACES.items():
            page = console.open(place)
            page.locator("h1", has_text=title).wait_for()
            console.settle()
            if size == WIDE or place in ON_PHONE:
                wrong |= {f"{place} {one}": one for one in findings(page, *RULES[theme])}
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong[f"{place} is wider than its window"] = True

    assert list(wrong) == []


def test_the_first_load_is_small_over_all(browser: Browser, desk: Running) -> None:
    with watched(browser, desk.base) as console, counted(console.page) as sizes:
        page = console.open()
        page.locator(".figures").wait_for()
        page.wait_for_load_state("load")

    assert len(sizes) > 10
    assert sum(sizes) <= MOST_BYTES, sizes


def test_a_theme_that_was_chosen_stays(console: Watched) -> None:
    page = console.open()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)

    page.get_by_role("button", name="Colours: as the system").click()
    page.get_by_role("button", name="Colours: light").click()
    dark = page.evaluate(ground)
    page.reload()
    page.locator("h1").wait_for()

    assert dark != light
    assert page.evaluate(ground) == dark


def test_every_page_is_reached_by_keyboard_alone(console: Watched) -> None:
    page = console.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    reached: set[str] = set()
    for name in ("Overview", "Servers", "Tools", "Calls", "Questions", "Programs", "Connections", "Keys", "People"):
        go(page, name)
        page.locator("h1", has_text=name).wait_for()
        reached.add(page.evaluate("document.activeElement.tagName"))

    assert reached <= {"H1"}, "focus goes to the new page's heading"


def go(page: Page, name: str) -> None:
    """Follow a link of the main navigation with the Tab key and Enter."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.locator(".skip").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").strip() == name:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            break
    page.keyboard.press("Enter")


def test_a_phone_has_the_other_pages_behind_a_button(browser: Browser, desk: Running) -> None:
    with watched(browser, desk.base, viewport=NARROW) as console:
        page = console.open()
        page.get_by_role("button", name="More").click()
        page.get_by_role("dialog").get_by_role("link", name="Keys").click()
        page.locator("h1", has_text="Keys").wait_for()

        assert not page.get_by_role("dialog").is_visible()
