"""Schemas that anybody may have written are compiled and used in bounded time, or not at all."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any

import pytest

from trunkline.tools.check.bounds import relaxed
from trunkline.tools.check.checker import Checkers, checker_for, schema_problem
from trunkline.tools.patterns import states

Schema = dict[str, Any]


def problems(schema: Mapping[str, Any], arguments: dict[str, Any]) -> list[str]:
    checker = Checkers().find(schema)
    assert checker.reason == ""
    return checker.problems(arguments)


def reason(schema: Mapping[str, Any]) -> str:
    return Checkers().find(schema).reason


def of(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "arguments", "problem"),
    [
        (of(n={"type": "integer"}), {"n": "7"}, "'n' must be of type integer"),
        (of(n={"type": ["integer", "null"]}), {"n": "7"}, "'n' must be of type integer or null"),
        (of(n={"minimum": 3}), {"n": 2}, "'n' must be at least 3"),
        (of(n={"exclusiveMaximum": 3}), {"n": 3}, "'n' must be less than 3"),
        (of(n={"multipleOf": 5}), {"n": 3}, "'n' must be a multiple of 5"),
        (of(s={"minLength": 2}), {"s": "x"}, "'s' is shorter than 2"),
        (of(s={"maxLength": 2}), {"s": "xxx"}, "'s' is longer than 2"),
        (of(s={"pattern": "^a+$"}), {"s": "b"}, "'s' does not match the pattern \"^a+$\""),
        (of(s={"enum": ["a", "b"]}), {"s": "c"}, '\'s\' must be one of ["a","b"]'),
        (of(s={"const": 1}), {"s": 2}, "'s' must be 1"),
        (of(a={"items": {"type": "string"}}), {"a": ["x", 1]}, "'a[1]' must be of type string"),
        (of(a={"maxItems": 1}), {"a": [1, 2]}, "'a' has more items than 1"),
        (of(a={"uniqueItems": True}), {"a": [1, 1]}, "'a' has the same item twice"),
        (of(o=of(p={"type": "string"})), {"o": {"p": 1}}, "'o.p' must be of type string"),
        (of(a={"anyOf": [{"type": "string"}, {"type": "null"}]}), {"a": 1}, "'a' fits none of the allowed forms"),
        (of(a={"oneOf": [{}, {}]}), {"a": 1}, "'a' does not fit exactly one of the allowed forms"),
        (of(a={"not": {"type": "string"}}), {"a": "x"}, "'a' has a form that is not allowed"),
        (of(a=False), {"a": 1}, "'a' is not allowed"),
        ({"required": ["a"]}, {}, "'a' is missing"),
        ({"properties": {"b": {}}, "additionalProperties": False}, {"a": 1}, "'a' is not taken"),
        ({"additionalProperties": False}, {"a": 1}, "the whole has members that are not taken"),
        ({"minProperties": 1}, {}, "the whole has fewer members than 1"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "'b' is missing"),
    ],
)
def test_every_rule_counts_and_is_told_by_name(schema: Schema, arguments: dict[str, Any], problem: str) -> None:
    assert problems(schema, arguments) == [problem]


def test_values_are_never_told() -> None:
    schema = of(
        a={"type": "integer"}, b={"enum": ["x"]}, c={"pattern": "^x$"}, d={"anyOf": [{"type": "null"}]}, e={"const": 1}
    )

    told = problems(schema, dict.fromkeys("abcde", "hunter2"))

    assert len(told) == 5
    assert "hunter2" not in " ".join(told)


def test_five_problems_are_told_and_the_rest_counted() -> None:
    told = problems({"required": [f"r{n}" for n in range(12)]}, {})

    assert told == [*(f"'r{n}' is missing" for n in range(5)), "and 7 more"]


def test_long_and_odd_names_fit_into_the_sentence() -> None:
    [told] = problems({**of(a={}), "additionalProperties": False}, {"x\n" * 100: 1})

    assert told.isprintable()
    assert len(told) < 150


def test_a_schema_is_read_as_2020_12_unless_it_says_otherwise() -> None:
    tuples = {"prefixItems": [{"type": "string"}]}

    assert problems(of(a=tuples), {"a": [1]}) == ["'a[0]' must be of type string"]
    assert problems({"$schema": "http://json-schema.org/draft-07/schema#", **of(a=tuples)}, {"a": [1]}) == []


def test_draft_7_counts_where_it_is_named_or_where_nothing_else_can_be_meant() -> None:
    tuples = of(a={"items": [{"type": "string"}]})

    for schema in (tuples, {"$schema": "http://json-schema.org/draft-07/schema#", **tuples}):
        assert problems(schema, {"a": [1]}) == ["'a[0]' must be of type string"]


@pytest.fixture
def listener() -> Generator[tuple[str, list[str]]]:
    """A place on the network, and who came there."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        visits: list[str] = []

        def accept() -> None:
            try:
                visits.append(str(server.accept()))
            except OSError:
                pass

        waiting = threading.Thread(target=accept, daemon=True)
        waiting.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", visits
        server.shutdown(socket.SHUT_RDWR)
    waiting.join(5)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "HERE/a.json"},
        {"properties": {"a": {"$ref": "HERE/a.json#/x"}}},
        {"properties": {"a": {"$dynamicRef": "HERE/a.json"}}},
        {"$id": "HERE/a.json", "properties": {"a": {"$ref": "b.json"}}},
        {"$defs": {"a": {"$id": "HERE/a.json"}}, "properties": {"a": {"$ref": "#/$defs/a"}}},
        {"$ref": "file:///etc/passwd"},
    ],
)
def test_another_document_is_never_fetched(schema: Schema, listener: tuple[str, list[str]]) -> None:
    address, visits = listener

    assert "another document" in reason(json.loads(json.dumps(schema).replace("HERE", address)))
    assert visits == []


def test_an_unknown_dialect_is_neither_fetched_nor_a_reason_to_refuse(listener: tuple[str, list[str]]) -> None:
    address, visits = listener

    assert problems({"$schema": f"{address}/schema", "required": ["a"]}, {}) == ["'a' is missing"]
    assert visits == []


def test_references_within_a_schema_count() -> None:
    schema = {"$defs": {"n": {"type": "integer"}, "m/m": {"$anchor": "x", "minimum": 3}}, **of(a={}, b={}, c={})}
    schema["properties"] = {
        "a": {"$ref": "#/$defs/n"},
        "b": {"$ref": "#/$defs/m~1m"},
        "c": {"$ref": "#x"},
        "d": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    }

    told = problems(schema, {"a": "x", "b": 1, "c": 1, "d": {"minimum": "x"}})

    assert len(told) == 4


TREE = of(name={"type": "string"}, left={"$ref": "#"}, right={"$ref": "#"})
FORKED = of(name={"type": "string"}, left={"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})


@pytest.mark.parametrize("schema", [TREE, FORKED, {**FORKED, "unevaluatedProperties": False}])
def test_a_schema_that_contains_itself_is_used_in_bounded_time(schema: Schema) -> None:
    good: dict[str, Any] = {"name": "x"}
    bad: dict[str, Any] = {"name": 1}
    for _ in range(90):
        good, bad = {"left": good}, {"left": bad}

    assert problems(schema, good) == []
    assert problems(schema, bad) == ["something in them does not fit its schema"]
    assert problems(schema, {"left": {"name": 1}}) != []


def test_what_is_left_over_in_a_schema_that_contains_itself_is_not_looked_for() -> None:
    again = {"$ref": "#/$defs/d"}
    left = {"unevaluatedProperties": {"allOf": [again, {**again, "unevaluatedProperties": {"const": 1}}]}}
    arguments: dict[str, Any] = {}
    for _ in range(60):
        arguments = {"a": arguments}

    assert problems({"$defs": {"d": {"anyOf": [left]}}, **again}, arguments) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}, "$ref": "#/$defs/a"},
    ],
)
def test_a_schema_that_is_nothing_but_itself_does_no_harm(schema: Schema) -> None:
    assert problems(schema, {"a": 1}) == []


def doubling(keyword: str, times: int) -> Schema:
    defs: Schema = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(times)}
    return {"$defs": {**defs, f"d{times}": {"type": "string"}}, **of(a={"$ref": "#/$defs/d0"})}


def own_name(schema: Schema) -> Schema:
    """The same, by references that look as if they led to what every validator knows."""
    address = "https://json-schema.org/draft/own"
    return {"$id": address, **json.loads(json.dumps(schema).replace('"#/', f'"{address}#/'))}


def left_over(times: int) -> Schema:
    schema = of(a={"type": "string"})
    for _ in range(times):
        schema = {"allOf": [schema], "unevaluatedProperties": {"type": "string"}}
    return schema


def nested(times: int) -> Schema:
    schema: Schema = {}
    for _ in range(times):
        schema = of(a=schema)
    return schema


def chained(times: int) -> Schema:
    defs: Schema = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(times)}
    return {"$defs": {**defs, f"d{times}": {}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"anyOf": [{"type": "string"}] * 10_000}, "too many parts"),
        ({"anyOf": [{"required": [f"r{n}"]} for n in range(4_000)]}, "more than 10000 parts"),
        (doubling("anyOf", 40), "more than 5000 parts when"),
        (doubling("allOf", 40), "more than 5000 parts when"),
        (own_name(doubling("anyOf", 40)), "more than 5000 parts when"),
        (left_over(30), "more than 5000 parts when"),
        (nested(60), "nested more than"),
        (nested(5_000), "nested without end"),
        (chained(2_000), "lead to each other"),
        ({"description": "x" * 1_000_000}, "longer than"),
        ({"type": "text"}, "not valid: 'type'"),
        ({"$ref": "#/$defs/none"}, "does not have"),
        ({"default": object()}, "not JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_has_a_reason(schema: Schema, why: str) -> None:
    assert why in reason(schema)
    assert schema_problem(schema) == reason(schema)


def test_a_large_schema_within_the_bounds_is_used() -> None:
    schema = of(a={"anyOf": [{"const": n} for n in range(2_000)]})

    assert problems(schema, {"a": 1_999}) == []
    assert problems(schema, {"a": 2_000}) == ["something in them does not fit its schema"]


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"(.*1.{40}){5}z", r"((0|1)*1(0|1){50}|\w*z)*y"])
def test_no_pattern_takes_long(pattern: str) -> None:
    schema = of(a={"type": "string", "pattern": pattern}, b={"type": "string"})

    for length in (1_000, 10_000, 1_000_000):
        told = problems(schema, {"a": "01" * length, "b": 1})

        assert "'b' must be of type string" in told


def test_patterns_are_left_out_only_where_texts_are_very_long() -> None:
    schema = of(path={"pattern": "^/"}, content={"type": "string"})

    assert problems(schema, {"path": "x", "content": "x" * 500_000}) == ["'path' does not match the pattern \"^/\""]
    assert problems(schema, {"path": "x", "content": "x" * 5_000_000}) == []
    assert problems(schema, {"path": "x", "content": ["x" * 5_000_000]}) == ["'content' must be of type string"]


EMAIL = r"^(?!\.)(?!.*\.\.)([a-z.]*)[a-z]@x\.org$"


@pytest.mark.parametrize("pattern", [EMAIL, r"(a)\1", r"[^]", "((a{1,100}){1,100}){1,100}", "a" * 5_000])
def test_a_pattern_that_no_linear_engine_knows_does_not_cost_the_tool(pattern: str) -> None:
    schema = of(mail={"type": "string", "pattern": pattern}, n={"type": "integer"})

    assert problems(schema, {"mail": "anything", "n": 1}) == []
    assert problems(schema, {"mail": 1, "n": "x"}) == [
        "'mail' must be of type string",
        "'n' must be of type integer",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        of(mail={"not": {"pattern": EMAIL}}),
        of(mail={"oneOf": [{"pattern": EMAIL}, {"type": "string"}]}),
        of(mail={"if": {"pattern": EMAIL}, "then": False}),
        {"patternProperties": {EMAIL: {"type": "null"}, "^mail$": {}}, "additionalProperties": False},
        {"$defs": {"m": {"pattern": EMAIL}}, **of(mail={"not": {"$ref": "#/$defs/m"}})},
    ],
)
def test_without_such_a_pattern_nothing_right_is_refused(schema: Schema) -> None:
    assert problems(schema, {"mail": "not an address"}) == []


def test_what_is_relaxed_accepts_all_that_it_did_before() -> None:
    chance = random.Random(7)
    accepted = 0
    for _ in range(400):
        schema = {**_random_schema(chance, 3), "$defs": {"d": _random_schema(chance, 1)}}
        strict, loose = Checkers().find(schema), Checkers().find(relaxed(schema, lambda pattern: True))
        for _ in range(10):
            value = {"a": _random_value(chance, 3), "b": _random_value(chance, 1)}
            if not strict.problems(value):
                accepted += 1
                assert not loose.problems(value), (schema, value)

    assert accepted > 500


def _random_schema(chance: random.Random, depth: int) -> Schema:
    if depth == 0:
        leaves: list[Schema] = [{"pattern": "^a"}, {"type": "string"}, {"required": ["a"]}, {"$ref": "#/$defs/d"}]
        return chance.choice(leaves)
    schema: Schema = {}
    for _ in range(chance.randint(1, 2)):
        word = chance.choice(["allOf", "anyOf", "oneOf", "not", "if", "properties", "patternProperties", "contains"])
        inner = [_random_schema(chance, depth - 1) for _ in range(3)]
        match word:
            case "allOf" | "anyOf" | "oneOf":
                schema[word] = inner[: chance.randint(1, 3)]
            case "if":
                schema |= {"if": inner[0], "then": inner[1], "else": inner[2]}
            case "properties":
                schema |= {"properties": {"a": inner[0]}, "unevaluatedProperties": inner[1]}
            case "patternProperties":
                schema |= {"patternProperties": {"^a": inner[0]}, "additionalProperties": inner[1]}
            case "contains":
                schema |= {"contains": inner[0], "maxContains": 1}
            case _:
                schema[word] = inner[0]
    return schema


def _random_value(chance: random.Random, depth: int) -> Any:
    if depth == 0 or chance.random() < 0.3:
        return chance.choice(["a", "b", 1, None])
    inner = [_random_value(chance, depth - 1) for _ in range(2)]
    return inner if chance.random() < 0.5 else dict(zip("ab", inner, strict=True))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"a": [list(range(500))] * 1_000}, "too many"),
        ({"a": {1, 2}}, "JSON does not have"),
        ({"a": b"bytes"}, "JSON does not have"),
        ({"a": "\ud800"}, "JSON does not have"),
    ],
)
def test_arguments_that_cannot_be_checked_are_refused(arguments: dict[str, Any], problem: str) -> None:
    [told] = problems(of(a={"type": ["array", "string"], "pattern": "x"}), arguments)

    assert problem in told


def test_arguments_nested_without_end_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"left": deep}

    assert problems(TREE, deep) == ["they are nested more than 100 levels deep"]


def test_one_wrong_item_of_very_many_is_told_alone() -> None:
    assert problems(of(a={"items": {"type": "string"}}), {"a": list(range(50_000))}) == [
        "'a[0]' must be of type string"
    ]


def test_a_schema_is_compiled_once() -> None:
    schema = of(unlike_any_other={"type": "string"})

    assert checker_for(schema) is checker_for(MappingProxyType(of(unlike_any_other={"type": "string"})))


def test_what_is_kept_is_bounded_in_number_and_in_size() -> None:
    many, large = Checkers(max_count=10), Checkers(max_bytes=5_000)
    first = many.find(of(a0={}))
    for n in range(1, 30):
        many.find(of(a0={}))
        many.find({"description": "x" * 900, **of(**{f"a{n}": {}})})
        large.find({"description": "x" * 900, **of(**{f"a{n}": {}})})

    assert len(many) == 10
    assert len(large) == 5
    assert many.find(of(a0={})) is first, "what is used stays"


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("", 1), ("abc", 4), ("[a-z]+", 2), (r"\d{4}-\d{2}", 8), ("(ab){3}", 7), ("(a{3}|b){2}", 9), (r"\p{L}{2,}", 4)],
)
def test_the_cost_of_a_pattern_grows_with_what_it_repeats(pattern: str, count: int) -> None:
    assert states(pattern) == count
