"""One browser, and one gateway with a desk that has something of everything."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.console.browser import DESK, PATIENCE, Running, Watched, launch, running, watched
from tests.console.house import TOKEN, House, open_house
from tests.harness import make_config, plain_server


@pytest.fixture(scope="package")
def browser() -> Generator[Browser]:
    """A real Chromium; not longer than these tests, because its loop would be in the way of all that follow."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="package")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A gateway on this machine for whoever is on it, with a server that works and one that does not."""
    home: Path = tmp_path_factory.mktemp("desk")
    servers = {"desk": plain_server(DESK), "gone": {"command": "/nowhere/to-be-found"}}
    with running(make_config(home, servers)) as opened:
        yield opened


@pytest.fixture(scope="package")
def house(tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    """A gateway that lets in nobody without a key, with everything in it."""
    with open_house(tmp_path_factory.mktemp("house")) as opened:
        yield opened


@pytest.fixture(scope="module")
def office(browser: Browser, house: House) -> Generator[Watched]:
    """Its console, for the admin, loaded once for a file: a page that stays open keeps showing what happens."""
    with watched(browser, house.base, permissions=["clipboard-read", "clipboard-write"]) as one:
        one.sign_in(TOKEN)
        yield one


@pytest.fixture
def admin(office: Watched) -> Generator[Watched]:
    """The same, for one test, after which nothing went wrong."""
    yield office
    wrong, office.wrong = office.wrong, []
    assert wrong == []


@pytest.fixture(scope="module")
def screen(browser: Browser, desk: Running) -> Generator[Watched]:
    """The console of that gateway on a wide screen, loaded once."""
    with watched(browser, desk.base) as one:
        yield one


@pytest.fixture
def console(screen: Watched) -> Generator[Watched]:
    """The same, for one test, after which nothing went wrong."""
    yield screen
    wrong, screen.wrong = screen.wrong, []
    assert wrong == []
