"""Getting in: a key becomes a cookie, which pages of other sites cannot use; members see what is theirs."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Generator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.browser import DESK, Running, looked_at, running, watched
from tests.harness import make_config, plain_server

TOKEN = "an-unguessable-token-1"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """A gateway that lets in nobody without a key."""
    home = tmp_path_factory.mktemp("locked")
    with running(make_config(home, {"desk": plain_server(DESK)}, token=TOKEN)) as opened:
        yield opened


def member_key(locked: Running, name: str) -> str:
    """A key of somebody new who is no admin."""

    async def make() -> str:
        people = locked.gateway.hub.relay.tenancy.people
        await people.add_user(name, "member", {})
        return (await people.make_key(name, name="laptop"))[1]

    return locked.do(make())


def enter(page: Page, key: str) -> None:
    page.get_by_label("Key").fill(key)
    page.keyboard.press("Enter")


def test_a_key_lets_in_and_is_remembered_until_one_signs_out(browser: Browser, locked: Running) -> None:
    with watched(browser, locked.base) as console:
        page = console.open("tools")
        expect(page.locator("h1")).to_have_text("Sign in to Trunkline")
        enter(page, "wrong")
        expect(page.get_by_role("alert")).to_contain_text("lets nobody in")
        assert looked_at(page, "signing in") == []
        enter(page, TOKEN)
        expect(page.locator("h1")).to_have_text("Tools")
        assert TOKEN not in page.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})")
        page.reload()
        expect(page.locator("h1")).to_have_text("Tools")
        page.get_by_role("button", name="Sign out").first.click()

        expect(page.locator("h1")).to_have_text("Sign in to Trunkline")


def test_whose_key_is_revoked_is_asked_for_another_and_goes_on_where_they_were(
    browser: Browser, locked: Running
) -> None:
    people, key = locked.gateway.hub.relay.tenancy.people, member_key(locked, "flo")
    with watched(browser, locked.base) as console:
        page = console.open()
        enter(page, key)
        live = page.get_by_text("Live", exact=True)
        expect(live).to_be_attached()
        locked.do(people.revoke_key(key.removeprefix("tl_").partition(".")[0]))
        page.evaluate("location.hash = '#/tools'")
        expect(page.locator("h1")).to_have_text("Sign in to Trunkline")
        enter(page, TOKEN)

        expect(page.locator("h1")).to_have_text("Tools")
        expect(page.get_by_role("link", name="send_parcel")).to_be_visible()
        expect(live).to_be_attached()


def test_a_member_has_the_pages_of_members_and_makes_keys_of_their_own(browser: Browser, locked: Running) -> None:
    with watched(browser, locked.base) as console:
        page = console.open()
        enter(page, member_key(locked, "ann"))
        expect(page.locator("h1")).to_have_text("Overview")
        expect(page.get_by_role("link", name="People")).to_have_count(0)
        page = console.open("keys")
        expect(page.get_by_role("region", name="Keys")).to_contain_text("laptop")
        page.get_by_role("button", name="Make a key").click()
        page.get_by_label("Name").fill("phone")
        page.get_by_label("It may only read").check()
        page.get_by_role("button", name="Make it").click()
        expect(page.get_by_text("It is shown this once.")).to_be_visible()
        made = page.locator(".address code").inner_text()
        page.get_by_role("button", name="I have it").click()
        expect(page.get_by_role("region", name="Keys")).to_contain_text("only read")
        assert made not in page.content()
        page.get_by_role("button", name="Revoke phone").click()
        page.get_by_role("button", name="Revoke", exact=True).click()

        expect(page.get_by_role("region", name="Keys")).not_to_contain_text("phone")


def test_an_admin_takes_in_changes_and_forgets_people(browser: Browser, locked: Running) -> None:
    with watched(browser, locked.base) as console:
        page = console.open("people")
        enter(page, TOKEN)
        page.get_by_role("button", name="Add somebody").click()
        page.get_by_label("Name").fill("bob")
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_role("button", name="Change bob").click()
        page.get_by_role("combobox", name="Role").select_option("reader")
        page.get_by_role("button", name="Add a limit").click()
        page.get_by_label("Limit 1: what").select_option("calls_per_minute")
        page.get_by_label("Limit 1: at most").fill("30")
        page.get_by_role("button", name="Save").click()
        row = page.get_by_role("row", name="bob")
        expect(row).to_contain_text("reader")
        expect(row).to_contain_text("calls per minute 30")
        row.get_by_role("link", name="Keys").click()
        expect(page.locator("h1")).to_have_text("Keys of bob")
        page = console.open("people")
        page.get_by_role("button", name="Forget bob").click()
        page.get_by_role("button", name="Forget them").click()

        expect(page.get_by_role("row", name="bob")).to_have_count(0)


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of another origin on the same machine, to which a browser sends the same cookies."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Generator[str]:
    """Its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_page_of_another_origin_does_nothing_with_the_cookie(
    browser: Browser, locked: Running, elsewhere: str
) -> None:
    with watched(browser, locked.base) as console:
        page = console.open("people")
        enter(page, TOKEN)
        expect(page.locator("h1")).to_have_text("People")
        other = page.context.new_page()
        other.goto(elsewhere)
        attack = """async ([url, headers]) => {
            const body = JSON.stringify({name: "mallory", role: "admin"});
            const send = (mode) => fetch(url, {method: "POST", credentials: "include", mode, body, headers});
            return Promise.all(["no-cors", "cors"].map((mode) => send(mode).then((one) => one.status, () => -1)));
        }"""
        for headers in ({"content-type": "text/plain"}, {"content-type": "application/json", "trunkline-console": "1"}):
            assert set(other.evaluate(attack, [f"{locked.base}/api/v1/users", headers])) <= {0, -1, 403}
        bare = page.context.request.post(f"{locked.base}/api/v1/users", data={"name": "mallory"})

        assert bare.status == 403
        people = locked.gateway.hub.relay.tenancy.people
        assert "mallory" not in [user.name for user in locked.do(people.users(after="", limit=100))]
