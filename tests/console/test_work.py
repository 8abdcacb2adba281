"""What callers do, in the console as it happens: calls, questions, programs, what was used, and the record of it."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.console.browser import Watched, watched
from tests.console.house import House

WAITS = "await shop__wait()"
WANTS = "await shop__buy(item=3)"


def test_a_question_of_a_call_elsewhere_shows_at_once_and_is_answered(admin: Watched, house: House) -> None:
    page = admin.open("questions")
    expect(page.get_by_text("Nobody asks you anything")).to_be_visible()
    asked = house.call("desk__book", {"day": "Friday"})
    expect(page.get_by_text("For how many?")).to_be_visible()
    expect(page.locator(".side .count")).to_have_text("1")
    page.get_by_role("button", name="Answer").click()
    assert page.evaluate("document.activeElement.validity.valueMissing")
    page.get_by_label("How many people?").fill("4")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("Nobody asks you anything")).to_be_visible()

    done = house.retry(asked, "desk__book", {"day": "Friday"}, "decline")
    assert '"people": 4' in done.text


def test_a_program_shows_as_it_runs_and_is_stopped(admin: Watched, house: House) -> None:
    page = admin.open("programs")
    card = page.locator(".card", has_text="running")
    expect(card).to_have_count(0)
    ran = house.begin(WAITS)
    card.get_by_role("button", name="Stop").click()
    expect(card).to_have_count(0)
    assert ran.result(30).result["isError"]

    house.program(WANTS)
    waits = page.locator(".card", has_text="waiting")
    expect(waits).to_contain_text("shop__buy")
    waits.get_by_role("button", name="Stop").click()
    expect(waits).to_have_count(0)
    assert house.shop.bought == []


def test_calls_show_as_they_are_made_and_are_found_again(admin: Watched, house: House) -> None:
    ann = house.key_of("ann")
    page = admin.open("calls")
    table = page.get_by_role("region", name="Calls")
    house.call("desk__fail")
    expect(table.locator("tbody tr").first).to_contain_text("tool error")
    house.call("desk__draw", key=ann)
    expect(table.locator("tbody tr").first).to_contain_text("ann")
    house.program("await shop__look(item=2)")
    expect(table.locator("tbody tr", has_text="in a program").first).to_be_visible()
    narrowed = {
        "User": ("ann", "desk__draw"),
        "Tool": ("fail", "desk__fail"),
        "Server": ("shop", "shop__"),
        "Outcome": ("tool-error", "tool error"),
    }
    for label, (value, found) in narrowed.items():
        if label in ("User", "Tool"):
            page.get_by_role("textbox", name=label).fill(value)
        else:
            page.get_by_role("combobox", name=label).select_option(value)
        expect(table.locator("tbody tr").filter(has_not_text=found)).to_have_count(0)
        expect(table.locator("tbody tr", has_text=found).first).to_be_visible()
        page.get_by_role("button", name="Clear").click()
    page.get_by_label("Duration").select_option("60")
    expect(page.get_by_text("No call fits")).to_be_visible()
    page.get_by_label("Duration").select_option("")
    page.get_by_label("Since").select_option("900")
    table.get_by_role("link", name="shop__look").first.click()

    expect(page.locator(".path li").first).to_contain_text("entry")
    expect(page.locator(".path")).to_contain_text("send")
    page.locator(".facts div", has_text="Program").get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("Calls")
    expect(table.locator("tbody tr").filter(has_not_text="in a program")).to_have_count(0)
    expect(table.locator("tbody tr")).not_to_have_count(0)


def test_members_see_their_own_calls_alone(browser: Browser, house: House) -> None:
    kim = house.key_of("kim")
    house.call("desk__draw", key=house.key_of("lee"))
    house.call("desk__recite", key=kim)
    with watched(browser, house.base) as console:
        console.sign_in(kim)
        page = console.open("calls")
        expect(page.get_by_role("link", name="desk__recite")).to_have_count(1)
        expect(page.locator("tbody tr")).to_have_count(1)
        page = console.open("usage")
        page.get_by_role("tab", name="By tool").click()

        expect(page.get_by_role("row", name="recite")).to_be_visible()
        expect(page.get_by_role("row", name="draw")).to_have_count(0)


def test_what_was_used_is_summed_up_and_the_record_is_searched(admin: Watched, house: House) -> None:
    house.call("desk__draw", key=house.key_of("ben"))
    page = admin.open("usage")
    limited = page.locator(".rows li", has_text="calls per hour")
    expect(limited).to_contain_text("of 1,000")
    expect(limited.get_by_role("meter")).to_have_count(1)
    table = page.get_by_role("region", name="Usage")
    expect(table.get_by_role("row", name="ben")).to_be_visible()
    for tab, row in (("By server", "desk"), ("By tool", "draw"), ("By thread", "nobody in particular")):
        page.get_by_role("tab", name=tab).click()
        expect(table.get_by_role("row", name=row).first).to_be_visible()

    page = admin.open("audit")
    table = page.get_by_role("region", name="Audit")
    expect(table.locator("tbody tr", has_text="desk__draw").first).to_be_visible()
    page.get_by_label("User").fill("ben")
    expect(table.locator("tbody tr").filter(has_not_text="ben")).to_have_count(0)
    page.get_by_label("Kind").select_option("change")
    expect(table.locator("tbody tr", has_text="desk__draw")).to_have_count(0)


def test_what_is_to_be_pasted_elsewhere_is_copied(admin: Watched, house: House) -> None:
    page = admin.open("overview")
    page.get_by_role("button", name="Copy the address").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == house.running.gateway.url
    page.get_by_role("tab", name="VS Code").click()
    page.get_by_role("button", name="Copy Setting for vscode").click()
    expect(page.get_by_text("Copied")).to_have_count(2)

    assert '"type": "http"' in page.evaluate("navigator.clipboard.readText()")


def test_threads_profiles_and_limits_are_seen_and_threads_forgotten(admin: Watched, house: House) -> None:
    house.key_of("cleo")
    house.ask("PUT", "threads/trip?user=cleo", {"servers": ["desk"], "overrides": {"timeout": 7}})
    page = admin.open("people?tab=threads")
    page.get_by_label("User").select_option("cleo")
    expect(page.get_by_role("row", name="trip")).to_contain_text("timeout 7")
    page.get_by_role("button", name="Forget thread trip").click()
    page.get_by_role("button", name="Forget it").click()
    expect(page.get_by_text("No thread is configured")).to_be_visible()
    page.get_by_role("tab", name="Profiles").click()
    expect(page.get_by_role("row", name="few")).to_contain_text("desk__draw")
    page.get_by_role("tab", name="Limits").click()
    page.get_by_label("User").select_option("cleo")

    expect(page.get_by_role("row", name="calls per hour")).to_contain_text("1,000")
    assert house.ask("GET", "threads?user=cleo")["threads"] == []
