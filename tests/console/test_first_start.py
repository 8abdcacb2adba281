"""From an empty gateway to a called tool, in the browser alone."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser, Locator, expect

from tests.console.browser import DESK, looked_at, running, watched
from tests.harness import faulty_http, make_config


def test_whoever_may_adds_a_command_and_others_are_told_what_to_type(browser: Browser, tmp_path: Path) -> None:
    for allowed in (False, True):
        config = make_config(tmp_path / str(allowed), {}, allow_commands=allowed)
        with running(config) as empty, watched(browser, empty.base) as console:
            page = console.open("add?from=command")
            if not allowed:
                expect(page.get_by_label("Command", exact=True)).to_contain_text("trunkline add time")
                expect(page.get_by_role("button", name="Add", exact=True)).to_have_count(0)
                continue
            assert looked_at(page, "a command") == []
            page.get_by_label("Name").fill("desk")
            page.get_by_role("textbox", name="Command").fill(f"{sys.executable} -S '{DESK}'")
            page.get_by_role("button", name="Add", exact=True).click()
            expect(page.locator("h1")).to_have_text("desk")

            expect(page.locator(".head .state")).to_have_text("ready")


def test_five_clicks_lead_from_nothing_to_a_called_tool(browser: Browser, tmp_path: Path) -> None:
    clicks: list[str] = []

    def click(one: Locator) -> None:
        clicks.append(str(one))
        one.click()

    with faulty_http() as url, running(make_config(tmp_path, {})) as empty, watched(browser, empty.base) as console:
        page = console.open()
        assert looked_at(page, "the first page") == []
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
