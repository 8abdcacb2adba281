"""What searching saves: how lists are weighed, and what is counted for whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trunkline.model import Entry
from trunkline.telemetry.savings import SAMPLE, Savings, weight
from trunkline.tools.tokens import estimated

REAL = Path(__file__).parents[2] / "bench" / "data" / "tools.jsonl"
TOLD = ("name", "description", "inputSchema")


def entry(definition: dict[str, object], *, app_only: bool = False) -> Entry:
    name = str(definition["name"])
    return Entry(name, "one", name, text(definition), app_only=app_only)


def text(definition: dict[str, object]) -> bytes:
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":")).encode()


def real() -> list[dict[str, object]]:
    tools = [json.loads(line) for line in REAL.read_text().splitlines()]
    return [{key: tool[key] for key in TOLD if key in tool} for tool in tools]


def test_of_a_tool_models_read_the_name_the_description_and_the_schema() -> None:
    told: dict[str, object] = {"name": "a", "description": "Does a.", "inputSchema": {"type": "object"}}
    more = {**told, "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}, "_meta": {"x": 1}}

    assert weight([entry(more)]) == weight([entry(told)]) == estimated(text(told))


def test_tools_that_no_model_sees_weigh_nothing() -> None:
    assert weight([entry({"name": "a"}, app_only=True)]) == 0
    assert weight([]) == 0


def test_a_long_list_is_told_from_a_sample() -> None:
    tools = real()
    assert sum(len(text(tool)) for tool in tools) > 3 * SAMPLE

    exact = sum(estimated(text(tool)) for tool in tools)

    assert weight([entry(tool) for tool in tools]) == pytest.approx(exact, rel=0.1)  # type: ignore[reportUnknownMemberType]


def test_a_definition_without_end_is_told_from_its_beginning() -> None:
    huge: dict[str, object] = {"name": "a", "description": "word " * 1_000_000}

    assert weight([entry(huge)]) == pytest.approx(1_000_000, rel=0.1)  # type: ignore[reportUnknownMemberType]


def test_a_definition_too_deep_to_read_is_weighed_as_it_is() -> None:
    deep = b'{"name":"a","inputSchema":' + b"[" * 5000 + b"]" * 5000 + b"}"

    assert weight([Entry("a", "one", "a", deep)]) > 100


def test_searches_are_paid_from_what_lists_avoided() -> None:
    savings = Savings()
    savings.listed("", "ana", 1000)
    savings.listed("careful", "ana", 500)
    savings.listed("", "bob", 70)
    savings.searched("", "ana", b'{"a":"word word word"}')
    spent = estimated(b'{"a":"word word word"}')

    assert savings.total().tokens == 1570 - spent
    assert savings.total("ana").tokens == 1500 - spent
    assert savings.total("eve").tokens == 0
    assert {(profile, user) for profile, user, _ in savings.each("ana")} == {("", "ana"), ("careful", "ana")}


def test_users_without_end_share_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Savings, "MOST", 2)
    savings = Savings()
    for number in range(5):
        savings.listed("", f"user {number}", 10)

    assert savings.total().avoided == 50
    assert len(list(savings.each())) == 3
