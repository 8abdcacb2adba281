"""`trunkline tools --tokens`, as a stranger uses it."""

from __future__ import annotations

import json

import pytest

from tests.cli.inside import run
from tests.cli.stand_in import stand_in
from tests.cli.test_commands import home
from trunkline.cli import tokens
from trunkline.cli.tokens import bill_of, print_tokens
from trunkline.model import Entry
from trunkline.tools.tokens import can_count, estimated

__all__ = ["home"]


def add(name: str, env: dict[str, str]) -> None:
    server = stand_in(name)
    assert run("add", name, server["command"], *server["args"], env=env).returncode == 0


def entry(shown: str, server: str, words: int, *, app_only: bool = False) -> Entry:
    definition = {"name": shown, "description": "word " * words, "inputSchema": {"type": "object"}}
    return Entry(shown, server, shown, json.dumps(definition).encode(), app_only=app_only)


def test_the_largest_come_first_and_sums_are_those_of_the_tools(home: dict[str, str]) -> None:
    for name in ("notes", "clock"):
        add(name, home)

    told = json.loads(run("tools", "--tokens", "--format", "json", env=home).stdout)

    each = [tool["tokens"] for tool in told["tools"]]
    assert each == sorted(each, reverse=True)
    assert min(each) > 10
    assert told["total"] == {"tools": len(each), "tokens": sum(each)}
    assert sum(server["tokens"] for server in told["servers"].values()) == sum(each)
    assert set(told["servers"]) == {"notes", "clock"}
    assert told["shown"] == told["total"]
    assert (told["counted"], told["unavailable"]) == (can_count(), {})


def test_callers_who_search_are_shown_less_than_there_is(home: dict[str, str]) -> None:
    add("notes", home)

    searching = run("tools", "--tokens", "--format", "json", env={**home, "TRUNKLINE_GATEWAY_EXPOSE": "search"})

    told = json.loads(searching.stdout)
    assert told["total"]["tools"] == 5
    assert told["shown"]["tools"] == 2
    assert "search_tools" not in {tool["tool"] for tool in told["tools"]}


def test_filters_narrow_the_tools_and_the_compact_form_is_a_line_for_each(home: dict[str, str]) -> None:
    add("notes", home)

    done = run("tools", "--tokens", "--search", "delete", "--format", "compact", env=home)

    number, name = done.stdout.split()
    assert int(number) > 10
    assert name == "delete_note"
    assert "1 tool takes" in done.stderr


def test_a_table_has_tools_then_servers(capsys: pytest.CaptureFixture[str]) -> None:
    tools = [entry("a", "one", 5), entry("b", "one", 2000), entry("c", "two", 50)]

    print_tokens(tools, tools[:1], {}, format="table")

    said = capsys.readouterr()
    lines = [line.split() for line in said.out.splitlines()]
    assert [line[1:] for line in lines[:4]] == [["TOOL", "SERVER"], ["b", "one"], ["c", "two"], ["a", "one"]]
    assert [line[1:] for line in lines[5:]] == [["SERVER", "TOOLS"], ["one", "2"], ["two", "1"]]
    assert "are shown 1," in said.err


def test_without_the_tokenizer_numbers_are_estimated_and_say_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "can_count", lambda: False)

    print_tokens([entry("a", "one", 5)], [], {}, format="table")
    said = capsys.readouterr()
    print_tokens([entry("a", "one", 5)], [], {}, format="json")
    told = json.loads(capsys.readouterr().out)

    assert "take about " in said.err
    assert "pip install 'trunkline[tokens]'" in said.err
    assert told["counted"] is False


def test_tools_for_an_apps_own_use_take_nothing_of_a_models_context() -> None:
    bill = bill_of([entry("a", "one", 5), entry("click", "one", 5, app_only=True)], estimated)

    assert bill.total.tools == 1


def test_half_a_character_in_a_description_is_no_reason_to_fail() -> None:
    broken = Entry("a", "one", "a", rb'{"name":"a","description":"\ud83d","inputSchema":{"type":"object"}}')

    assert bill_of([broken], estimated).total.tokens > 0


def test_no_tools_are_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_tokens([], [], {}, format="table")

    assert capsys.readouterr().out == ""
