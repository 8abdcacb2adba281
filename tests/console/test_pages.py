"""Every page of the console in a real browser: in both themes and widths, for everybody, and no word to strangers."""

from __future__ import annotations

from typing import Literal

from playwright.sync_api import Browser, ViewportSize, expect

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
Look = tuple[dict[str, int], Literal["light", "dark"]]
LOOKS: tuple[Look, ...] = ((WIDE, "light"), (NARROW, "dark"))
"""How each page is looked at: a theme changes colours alone, and a width all else."""
ALL_LOOKS: tuple[Look, ...] = (*LOOKS, (WIDE, "dark"), (NARROW, "light"))
"""And those that have all there is around a page, and most of what is on one."""


def test_every_page_is_whole_in_any_theme_and_width(browser: Browser, desk: Running) -> None:
    wrong: list[str] = []
    with watched(browser, desk.base) as console:
        for place, title in PLACES.items():
            page = console.open(place)
            expect(page.locator("h1")).to_have_text(title)
            for size, theme in ALL_LOOKS if place in ("overview", "tools/desk__send_parcel") else LOOKS:
                page.set_viewport_size(ViewportSize(width=size["width"], height=size["height"]))
                page.emulate_media(color_scheme=theme)
                wrong += [f"{place} {size['width']} {theme}: {one}" for one in findings(page)]
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    wrong.append(f"{place} is wider than {size['width']}")

    assert wrong == []


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
    page.get_by_role("dialog").get_by_role("link", name="Keys").click()

    expect(page.locator("h1")).to_have_text("Keys")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.set_viewport_size({"width": WIDE["width"], "height": WIDE["height"]})
