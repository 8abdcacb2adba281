"""Servers in the console: steered, checked, mended, added from everywhere, signed in to, and watched."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.console.browser import Watched
from tests.console.house import House, definition


def test_a_server_is_restarted_switched_off_checked_and_switched_on(admin: Watched, house: House) -> None:
    page = admin.open("servers/desk")
    state = page.locator(".head .state")
    page.get_by_role("button", name="Restart").click()
    expect(page.get_by_text("desk starts anew.")).to_be_visible()
    expect(state).to_have_text("ready")
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_label("Log", exact=True).last).to_contain_text("The desk is open.")
    page.get_by_role("button", name="Switch off").click()
    expect(state).to_have_text("switched off")
    page.get_by_role("tab", name="Check").click()
    page.get_by_role("button", name="Check now").click()
    found = page.locator(".findings li")
    expect(found).to_contain_text("Switched off")
    found.get_by_role("button", name="Switch on").click()

    expect(page.get_by_text("All is well.")).to_be_visible()
    expect(state).to_have_text("ready")
    assert "desk__draw" in house.running.gateway.hub.snapshot.tools


def test_what_ails_a_server_is_told_with_what_to_do(admin: Watched) -> None:
    page = admin.open("servers/gone?tab=check")
    page.get_by_role("button", name="Check now").click()

    expect(page.locator(".findings li").first).to_contain_text("to-be-found")


def test_a_server_of_the_registry_is_added_and_removed(admin: Watched, house: House) -> None:
    page = admin.open("add?from=registry")
    page.get_by_label("Search the registry").fill("com.example")
    page.get_by_role("button", name="Add com.example/near").click()
    expect(page.get_by_role("dialog")).to_contain_text("trunkline install com.example/near")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Add com.example/far").click()
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("h1")).to_have_text("far")
    expect(page.locator(".head .state")).to_have_text("ready")
    expect(page.get_by_role("link", name="far__echo", exact=True)).to_be_visible()
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()

    expect(page.locator("h1")).to_have_text("Servers")
    expect(page.get_by_role("link", name="far", exact=True)).to_have_count(0)
    assert "far" not in [one["name"] for one in house.ask("GET", "servers")["servers"]]


def test_servers_of_another_client_are_added(admin: Watched, house: House) -> None:
    page = admin.open("add?from=clients")
    cursor = page.locator(".card", has_text="Cursor")
    expect(cursor.locator("li", has_text="files")).to_contain_text("trunkline import cursor")
    cursor.get_by_role("button", name="Add weather").click()

    expect(page.locator("h1")).to_have_text("weather")
    expect(page.locator(".head .state")).to_have_text("ready")
    page = admin.open("add?from=clients")
    expect(page.locator("li", has_text="weather")).to_contain_text("added")
    house.ask("DELETE", "servers/weather")


def test_one_signs_in_to_a_server_and_out_again(admin: Watched, house: House) -> None:
    page = admin.open("connections")
    page.get_by_role("button", name="Sign in to git").click()
    row = page.get_by_role("row", name="git")
    expect(row).to_contain_text("signed in")
    expect(row).to_contain_text(f"as Ann of the hill at {house.provider.url}")
    assert house.provider.tokens
    for other in page.context.pages[1:]:
        expect(other.locator("body")).to_contain_text("Signed in")
        other.close()
    row.get_by_role("button", name="Sign out of git").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out").click()

    expect(page.get_by_text("You are signed in nowhere")).to_be_visible()
    assert house.provider.revoked


def test_what_a_server_changes_shows_at_once_and_is_agreed_to_or_held(admin: Watched, house: House) -> None:
    page = admin.open("servers/held")
    house.offer(definition("echo", "Says what it hears, and more."), definition("shout", "Says it loud."))
    review = page.locator(".review", has_text="echo")
    expect(review.locator(".diff .removed")).to_contain_text("Says what it hears.")
    expect(review.locator(".diff .added")).to_contain_text("and more.")
    review.get_by_role("button", name="Approve echo").click()
    expect(review).to_have_count(0)
    expect(page.get_by_role("link", name="held__echo", exact=True)).to_be_visible()
    page.get_by_role("button", name="Hold shout").click()
    page.get_by_role("button", name="Hold it").click()

    expect(page.get_by_text("shout is held.")).to_be_visible()
    tools = house.running.gateway.hub.snapshot.tools
    assert ("held__echo" in tools, "held__shout" in tools) == (True, False)


def test_a_server_that_dies_shows_without_a_reload(admin: Watched, house: House) -> None:
    page = admin.open("overview")
    fleet = page.locator(".card", has=page.get_by_role("heading", name="Servers"))
    expect(fleet.locator("li", has_text="held")).to_contain_text("ready")
    house.offered.unlink()
    try:
        expect(fleet.locator("li", has_text="held")).not_to_contain_text("ready")
        expect(page.locator(".needs li", has_text="Server 'held'")).to_be_visible()
    finally:
        house.offer(definition("echo", "Says what it hears, and more."))


def test_an_address_is_tried_before_it_is_added(admin: Watched, house: House) -> None:
    page = admin.open("add")
    page.get_by_role("textbox", name="Address").fill(house.far)
    page.get_by_role("button", name="Try it first").click()

    expect(page.locator(".tried")).to_contain_text("tool")
    assert "127" not in [one["name"] for one in house.ask("GET", "servers")["servers"]]
