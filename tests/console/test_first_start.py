"""From an empty gateway to a called tool, in the browser alone."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Locator, expect

from tests.console.browser import running, watched
from tests.harness import faulty_http, make_config


def test_five_clicks_lead_from_nothing_to_a_called_tool(browser: Browser, tmp_path: Path) -> None:
    clicks: list[str] = []

    def click(one: Locator) -> None:
        clicks.append(str(one))
        one.click()

    with faulty_http() as url, running(make_config(tmp_path, {})) as empty, watched(browser, empty.base) as console:
        page = console.open()
        click(page.get_by_role("link", name="By its address"))
        page.get_by_role("textbox", name="Address").fill(url)
        page.get_by_role("textbox", name="Name").fill("far")
        click(page.get_by_role("button", name="Add", exact=True))
        expect(page.locator("h1")).to_have_text("far")
        click(page.get_by_role("link", name="echo", exact=False).first)
        page.get_by_label("text").first.fill("hello")
        click(page.get_by_role("button", name="Call", exact=True))

        expect(page.locator(".result")).to_contain_text("hello")
    assert len(clicks) <= 5
