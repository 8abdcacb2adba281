"""What is read of a kept result fits its answer, and says where to go on."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest

from trunkline.call.results import preview, reading
from trunkline.call.results.shown import LEAST, PreviewFacts, show, take
from trunkline.errors import InvalidArgumentsError
from trunkline.tools.tokens import estimated
from trunkline.wire.members import encode


def told(answer: dict[str, Any]) -> dict[str, Any]:
    return json.loads(encode(answer))


def test_an_element_that_fits_no_answer_is_shortened_and_says_so() -> None:
    document = json.dumps({"rows": [{"id": 1, "text": "word " * 9000}, {"id": 2}]}).encode()

    answer = told(reading.read_json(document, "$.rows", 0, 0, 300))
    text = told(reading.read_json(document, "$.rows[0].text", 0, 0, 300))

    assert answer["items"][0]["id"] == 1
    assert "shortened" in answer
    assert answer["next"] == {"start": 1}
    assert text["text"].startswith("word word")
    assert text["next"]["start"] == len(text["text"])


def test_nothing_stands_where_nothing_is() -> None:
    with pytest.raises(InvalidArgumentsError, match="Nothing stands at"):
        reading.read_json(b'{"a":1}', "$.b", 0, 0, 300)


def test_members_of_an_object_are_read_in_turn() -> None:
    document = json.dumps({f"key {at}": "x" * 50 for at in range(200)}).encode()
    found: dict[str, Any] = {}
    at = 0
    while len(found) < 200:
        answer = told(reading.read_json(document, "$", at, 0, 500))
        found |= answer["members"]
        at = answer.get("next", {}).get("start", 200)

    assert found == json.loads(document)


@pytest.mark.parametrize(
    ("document", "wanted", "paths"),
    [
        (b'{"a": {"b": [1, "needle"]}}', "NEEDLE", ["$.a.b[1]"]),
        (b'{"needle here": 5, "b": 6}', "needle", ['$["needle here"]']),
        (b'[["x", "y"], ["caf\\u00e9"], "CAF\xc3\x89"]', "café", ["$[1][0]", "$[2]"]),
        (b' [ 1 , "a\\nb" ,\n {"c d":"a\\nb"} ] ', "a\nb", ["$[1]", '$[2]["c d"]']),
        (b'{"a":1,"a":"needle"}', "needle", ["$"]),
        (b'{"a":"nothing"}', "needle", []),
        (b'{"a":"needle needle needle"}', "needle", ["$.a"]),
    ],
)
def test_a_text_is_found_at(document: bytes, wanted: str, paths: list[str]) -> None:
    answer = told(reading.search_json(document, wanted, 0, 0, 1000))

    assert [one["path"] for one in answer["found"]] == paths


def test_what_was_found_is_told_in_turn() -> None:
    document = json.dumps([f"needle {at}" for at in range(500)]).encode()
    found: list[str] = []
    answer: dict[str, Any] = {}
    at: int | None = 0
    while at is not None:
        answer = told(reading.search_json(document, "needle", at, 0, 400))
        found += [one["path"] for one in answer["found"]]
        at = answer.get("next", {}).get("start")

    assert found == [f"$[{at}]" for at in range(500)]
    assert answer["occurrences"] == 500


def test_a_text_across_two_pieces_is_found_once() -> None:
    text = b"x" * (reading.PIECE - 3) + b"needle" + b"y" * 10

    found = told(reading.search_text(text, "needle", 1, 0, 1000, regex=False))["found"]

    assert [one["line"] for one in found] == [1]
    assert "needle" in found[0]["text"]


def test_lines_are_counted_across_pieces() -> None:
    text = "".join(f"line {at}\n" for at in range(1, 60_001)).encode()

    assert told(reading.read_text(text, 54_321, 0, 1, 500))["text"] == "line 54321"
    assert told(reading.search_text(text, "line 5999", 2, 1, 500, regex=False))["found"][0]["line"] == 5999
    assert told(reading.read_text(text, 70_000, 0, 1, 500))["text"] == ""


@pytest.mark.parametrize("pattern", ["(a", "(?=a)b", "(a)\\1", "a" * 2000])
def test_a_pattern_that_takes_too_long_or_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="cannot be matched"):
        reading.search_text(b"aaaa", pattern, 1, 0, 500, regex=True)


def test_a_pattern_that_would_backtrack_for_ever_does_not() -> None:
    text = b"a" * 50_000 + b"b"

    assert told(reading.search_text(text, "(a+)+$", 1, 0, 500, regex=True))["found"] == []


# Previews.

WIDE = {f"column_{at}": {f"member_{n}": "text " * 100 for n in range(30)} for at in range(60)}
DEEP: Any = reduce(lambda inner, _: {"down": [inner, "beside"]}, range(200), "bottom")


@pytest.mark.parametrize(
    "value",
    [
        WIDE,
        DEEP,
        [WIDE] * 4,
        {"text": "long " * 100_000},
        [[[["x" * 500] * 20] * 20] * 20],
        {"💡" * 500: ["ж" * 500] * 300},
        [{"a": 1}, {"b": None}, 7, "x"] * 9000,
        {"a": list(range(100_000))},
    ],
    ids=["wide", "deep", "list of wide", "text", "nested", "signs", "mixed", "numbers"],
)
@pytest.mark.parametrize("budget", [LEAST, 600])
def test_a_preview_fits_whatever_the_result_is_made_of(value: Any, budget: int) -> None:
    result = {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": {"it": value}}
    taken = take(json.dumps(result).encode(), 1000)

    assert taken is not None
    text = json.loads(show(taken, PreviewFacts("handle", 60, budget), {}))["content"][0]["text"]
    assert estimated(text) <= budget
    assert "$.it" in text


def test_the_structure_says_what_is_not_everywhere() -> None:
    sample = preview.sampled(json.dumps([{"a": 1, "b": "x"}, {"a": None}, {"a": 2, "b": "y"}]).encode())

    assert preview.outlined(sample, 10) == [
        "$: array of 3",
        "$[*]: object",
        "$[*].a: number or null",
        "$[*].b: string (not in all)",
    ]


@pytest.mark.parametrize(
    "result",
    [
        b'{"resultType":"input_required","inputRequests":{"a":"%s"}}' % (b"word " * 9000),
        b'{"content":"%s"}' % (b"word " * 9000),
        b'{"content":[{"type":"audio","data":"%s","mimeType":"audio/wav"}]}' % (b"abcd" * 9000),
        b'{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"%s"}}]}' % (b"abcd" * 9000),
        b'["%s"]' % (b"word " * 9000),
    ],
    ids=["question", "broken", "sound", "file", "no object"],
)
def test_what_is_no_large_text_is_left_alone(result: bytes) -> None:
    assert take(result, 1000) is None


def test_text_in_a_resource_is_text_and_few_words_beside_structured_content_stay() -> None:
    inside = {"type": "resource", "resource": {"uri": "file:///a", "text": "line\n" * 9000}}
    beside = [{"type": "text", "text": "Found 9,000."}]
    taken = take(encode({"content": [inside]}), 1000)
    both = take(encode({"content": beside, "structuredContent": {"items": list(range(9000))}}), 1000)

    assert taken is not None
    assert taken.documents["text"][0] == b"line\n" * 9000
    assert both is not None
    blocks = json.loads(show(both, PreviewFacts("handle", 60, 600), {}))["content"]
    assert blocks[0]["text"] == "Found 9,000."
    assert "array of 9,000" in blocks[1]["text"]


def test_two_parts_are_both_kept() -> None:
    text = [{"type": "text", "text": "words\n" * 9000}]
    taken = take(encode({"content": text, "structuredContent": {"items": list(range(9000))}}), 1000)

    assert taken is not None
    assert list(taken.documents) == ["structured", "text"]
    said = json.loads(show(taken, PreviewFacts("handle", 60, 600), {}))["content"][0]["text"]
    assert "9,000 lines" in said
    assert "array of 9,000" in said
    assert estimated(said) <= 600


def test_what_a_server_lets_callers_keep_is_no_longer_than_the_result_is_kept() -> None:
    big = {"content": [{"type": "text", "text": "word " * 9000}], "ttlMs": 10**9, "cacheScope": "public"}
    taken = take(encode(big), 1000)

    assert taken is not None
    said = json.loads(show(taken, PreviewFacts("handle", 60, 600), {}))
    assert (said["ttlMs"], said["cacheScope"]) == (60_000, "private")
