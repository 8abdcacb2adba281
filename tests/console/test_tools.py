"""Tools in the console: found, looked at, and tried, with all that a call can bring."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess

from playwright.sync_api import Page, expect

from tests.console.browser import Running, Watched
from tests.console.desk_server import SVG


def call(page: Page) -> None:
    page.get_by_role("button", name="Call", exact=True).click()


def test_a_form_made_of_the_schema_calls_the_tool(console: Watched) -> None:
    page = console.open("tools/desk__send_parcel")
    page.get_by_label("Recipient").fill("Ann")
    page.get_by_label("weight").fill("2.5")
    page.get_by_label("how", exact=True).select_option("by land")
    page.get_by_label("insured").uncheck()
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("Item 1", exact=True).fill("fragile")
    page.get_by_label("city").fill("Oslo")
    page.get_by_label("anything").fill('{"deep": [1]}')
    call(page)

    sent = {"to": "Ann", "weight": 2.5, "how": "by land", "insured": False, "labels": ["fragile"]}
    said = {**sent, "sender": {"city": "Oslo"}, "anything": {"deep": [1]}}
    expect(page.get_by_label("Text of the result")).to_have_text(f"send_parcel: {json.dumps(said, sort_keys=True)}")


def test_what_must_be_said_is_asked_for_before_anything_is_sent(console: Watched) -> None:
    page = console.open("tools/desk__send_parcel")
    call(page)

    assert page.evaluate("document.activeElement.validity.valueMissing")
    expect(page.locator(".answer .result")).to_have_count(0)


def test_arguments_can_be_given_as_json(console: Watched) -> None:
    page = console.open("tools/desk__book")
    page.get_by_role("tab", name="JSON").click()
    raw = page.get_by_label("Arguments as JSON")
    raw.fill("{not")
    expect(page.get_by_text("This is not JSON yet.")).to_be_visible()
    raw.fill('{"day": "Monday"}')
    page.get_by_role("tab", name="Form").click()

    expect(page.get_by_label("day")).to_have_value("Monday")


def test_a_question_is_answered_in_place(console: Watched) -> None:
    page = console.open("tools/desk__book")
    page.get_by_label("day").fill("Friday")
    call(page)
    page.get_by_label("How many people?").fill("4")
    page.get_by_role("button", name="Answer").click()

    expect(page.get_by_label("Text of the result")).to_contain_text(
        'Booked Friday: {"action": "accept", "content": {"people": 4}}'
    )


def test_a_question_can_be_declined(console: Watched) -> None:
    page = console.open("tools/desk__book")
    page.get_by_label("day").fill("Friday")
    call(page)
    page.get_by_role("button", name="Decline").click()

    expect(page.get_by_label("Text of the result")).to_contain_text('Booked Friday: {"action": "decline"')


def test_pictures_are_shown_and_what_could_do_more_is_not(console: Watched) -> None:
    page = console.open("tools/desk__draw")
    call(page)

    expect(page.get_by_role("img", name="What the tool answered")).to_have_count(1)
    expect(page.get_by_text("image/svg+xml")).to_be_visible()
    expect(page.locator(".result a")).to_have_count(1)
    expect(page.get_by_role("link", name="a page")).to_have_attribute("rel", "noopener noreferrer")


def test_what_is_not_shown_can_be_kept_as_it_came(console: Watched) -> None:
    page = console.open("tools/desk__draw")
    call(page)
    with page.expect_download() as begun:
        page.get_by_role("button", name="Download").click()

    assert begun.value.suggested_filename == "image"
    assert begun.value.path().read_bytes() == base64.b64decode(SVG)


def test_a_large_result_is_cut_and_shown_whole_on_demand(console: Watched) -> None:
    page = console.open("tools/desk__recite")
    call(page)
    text = page.get_by_label("Text of the result")
    expect(text).to_contain_text("Sing, goddess.")
    assert len(text.inner_text()) < 25_000
    page.get_by_role("button", name="Show all").click()

    expect(page.get_by_role("button", name="Show all")).to_have_count(0)
    assert len(text.inner_text()) > 100_000


def test_what_a_call_tells_meanwhile_is_shown_and_it_is_stopped(console: Watched, desk: Running) -> None:
    page = console.open("tools/desk__climb")
    call(page)
    expect(page.locator(".progress")).to_contain_text("2 of 4")
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "0.5")
    expect(page.get_by_label("Log messages")).to_contain_text("info guide: the hut is behind us")
    page.get_by_role("button", name="Stop").click()

    expect(page.get_by_text("Stopped.")).to_be_visible()
    page = console.open("calls?tool=climb")
    expect(page.locator("tbody tr").first).to_contain_text("cancelled")


def test_how_a_tool_behaves_is_shown_with_who_says_so(console: Watched) -> None:
    page = console.open("tools/desk__fail")
    expect(page.locator(".facts div", has_text="May destroy")).to_contain_text("yes · as its server says")
    page.get_by_role("tab", name="All").click()
    expect(page.get_by_label("Definition", exact=True)).to_contain_text('"destructiveHint": true')
    page = console.open("tools/desk__recite")

    expect(page.locator(".facts")).to_contain_text("as its words tell")


def test_structure_and_failure_are_told_apart(console: Watched) -> None:
    page = console.open("tools/desk__count")
    call(page)
    expect(page.get_by_label("Structured result", exact=True)).to_contain_text('"counted": 3')
    page = console.open("tools/desk__fail")
    call(page)

    expect(page.get_by_text("The tool says it failed")).to_be_visible()


def test_the_same_call_works_as_it_is_written_for_the_shell(console: Watched, desk: Running) -> None:
    page = console.open("tools/desk__book")
    page.get_by_label("day").fill("a 'quoted' $day\nand more")
    page.get_by_text("The same call elsewhere").click()
    curl = page.get_by_label("The call with curl", exact=True).inner_text()
    page.get_by_role("tab", name="Command line").click()
    command = page.get_by_label("The call with command", exact=True).inner_text()

    answer = json.loads(subprocess.run(["bash", "-c", curl], capture_output=True, check=True).stdout)
    assert answer["resultType"] == "input_required"
    words = shlex.split(command)
    assert words[:3] == ["trunkline", "exec", "desk__book"]
    assert json.loads(words[-1]) == {"day": "a 'quoted' $day\nand more"}


def test_the_same_call_is_python(console: Watched) -> None:
    page = console.open("tools/desk__book")
    page.get_by_label("day").fill("Monday")
    page.get_by_text("The same call elsewhere").click()
    page.get_by_role("tab", name="Python").click()
    text = page.get_by_label("The call with python", exact=True).inner_text()

    assert 'await hub.call("desk__book", {"day": "Monday"})' in text
    body = "\n".join(f"    {line}" for line in text.splitlines())
    compile(f"async def it():\n{body}", "<same>", "exec")


def test_what_a_model_would_find_is_ranked(console: Watched) -> None:
    page = console.open("tools")
    page.get_by_label("What do you want to do?").fill("send something to a friend by air")
    first = page.locator(".ranking li").first

    expect(first.get_by_role("link")).to_have_text("desk__send_parcel")
    expect(first.locator(".chips")).to_contain_text("air")
    expect(first.locator(".score")).to_contain_text("0.")
    page.get_by_label("How to search").select_option("regex")
    page.get_by_label("What do you want to do?").fill("^desk.*draw$|draw")
    expect(first.get_by_role("link")).to_have_text("desk__draw")
    page.get_by_label("How to search").select_option("bm25")
    page.get_by_label("What do you want to do?").fill("send a parcel by air")
    expect(first.get_by_role("link")).to_have_text("desk__send_parcel")
    first.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("desk__send_parcel")
