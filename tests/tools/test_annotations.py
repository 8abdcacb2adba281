"""Hints are declared, inferred, merged and checked, and what follows from them is never milder than they are."""

from __future__ import annotations

from typing import Any

import pytest

from trunkline.tool import UNKNOWN, Annotations, Tool
from trunkline.tools.annotations import (
    create_annotated_tool,
    effective,
    filter_tools_by_annotations,
    from_mcp,
    get_annotation_summary,
    get_tool_safety_level,
    infer_annotations,
    is_safe_to_retry,
    merge_annotations,
    requires_confirmation,
    to_mcp,
    validate_annotations,
)


def test_a_created_tool_gets_the_hints_of_its_words() -> None:
    tool = create_annotated_tool("deleteUser", "Delete a user account permanently")

    assert tool.annotations.destructive_hint is True
    assert tool.annotations.requires_confirmation is True
    assert tool.annotations.complexity == "simple"
    assert get_tool_safety_level(tool) == "dangerous"
    assert requires_confirmation(tool)
    assert not is_safe_to_retry(tool)
    assert get_annotation_summary(tool.annotations) == "[DESTRUCTIVE | requires confirmation | simple complexity]"


def test_a_tool_needs_no_description() -> None:
    tool = create_annotated_tool("getUser")

    assert tool.annotations.read_only_hint is True
    assert tool.input_schema == {"type": "object", "properties": {}}


def test_given_hints_come_before_inferred_ones() -> None:
    tool = create_annotated_tool(
        "deleteUser", "Delete a user", annotations=Annotations(title="Delete", destructive_hint=False, tags=("users",))
    )

    assert tool.annotations.destructive_hint is False
    assert tool.annotations.requires_confirmation is None
    assert (tool.annotations.title, tool.annotations.tags) == ("Delete", ("users",))


def test_inference_does_not_look_at_what_is_declared() -> None:
    tool = Tool("get_user", "Get a user", annotations=Annotations(destructive_hint=True))

    assert infer_annotations(tool).destructive_hint is False


def test_a_server_that_says_destructive_is_asked_about_even_where_words_are_mild() -> None:
    update = effective(Annotations(destructive_hint=True), "update_user", "Update a user")
    read = effective(Annotations(destructive_hint=True), "get_user", "Get a user")

    assert requires_confirmation(update)
    assert (read.read_only_hint, read.idempotent_hint) == (False, None)
    assert not is_safe_to_retry(read)


def test_what_was_inferred_from_reading_falls_with_it() -> None:
    hints = effective(Annotations(read_only_hint=False), "get_user", "Get a user")

    assert (hints.destructive_hint, hints.idempotent_hint) == (None, None)
    assert not is_safe_to_retry(hints)


def test_a_server_that_says_read_only_is_believed() -> None:
    hints = effective(Annotations(read_only_hint=True), "drop_cache", "Drop the cache")

    assert (hints.read_only_hint, hints.destructive_hint, hints.requires_confirmation) == (True, None, None)
    assert validate_annotations(hints) == []


def test_a_server_that_is_not_trusted_cannot_make_a_tool_look_milder() -> None:
    lie = Annotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, requires_confirmation=False, title="Tidy"
    )

    hints = effective(lie, "delete_user", "Delete a user", trusted=False)

    assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (False, True, None)
    assert requires_confirmation(hints)
    assert hints.title == "Tidy"
    assert effective(Annotations(destructive_hint=True), "get_user", trusted=False).destructive_hint is True


def test_the_configuration_comes_before_the_server() -> None:
    hints = effective(
        Annotations(destructive_hint=True, tags=("a",)),
        "delete_user",
        configured=Annotations(requires_confirmation=False, tags=("b",)),
    )

    assert not requires_confirmation(hints)
    assert hints.tags == ("a", "b")


def test_merging_the_later_wins_and_nothing_is_erased() -> None:
    merged = merge_annotations(
        Annotations(read_only_hint=True, title="One", tags=("data",), cost_hint=1.0),
        Annotations(idempotent_hint=True, tags=("safe", "data")),
        Annotations(cost_hint=0.0, read_only_hint=None, title="", tags=()),
    )

    assert merged == Annotations(
        read_only_hint=True, idempotent_hint=True, title="One", tags=("data", "safe"), cost_hint=0.0
    )
    assert (
        merge_annotations(Annotations(read_only_hint=True), Annotations(read_only_hint=False)).read_only_hint is False
    )
    assert merge_annotations() == UNKNOWN


@pytest.mark.parametrize(
    ("hints", "level", "asks", "retries"),
    [
        (Annotations(), "moderate", False, False),
        (Annotations(read_only_hint=True), "safe", False, True),
        (Annotations(destructive_hint=True), "dangerous", True, False),
        (Annotations(idempotent_hint=True), "moderate", False, True),
        (Annotations(requires_confirmation=True), "moderate", True, False),
        (Annotations(read_only_hint=True, destructive_hint=True), "dangerous", True, False),
        (Annotations(read_only_hint=True, destructive_hint=True, idempotent_hint=True), "dangerous", True, False),
        (Annotations(destructive_hint=True, idempotent_hint=True), "dangerous", True, True),
        (Annotations(destructive_hint=True, requires_confirmation=False), "moderate", False, False),
    ],
)
def test_what_follows_from_the_hints(hints: Annotations, level: str, asks: bool, retries: bool) -> None:
    tool = Tool("x", annotations=hints)

    assert get_tool_safety_level(tool) == get_tool_safety_level(hints) == level
    assert requires_confirmation(tool) == requires_confirmation(hints) == asks
    assert is_safe_to_retry(tool) == is_safe_to_retry(hints) == retries


def test_tools_are_filtered_by_their_hints() -> None:
    tools = [create_annotated_tool("get_user"), create_annotated_tool("delete_user")]

    found = filter_tools_by_annotations(tools, lambda hints: hints.read_only_hint is True)

    assert [tool.name for tool in found] == ["get_user"]


def test_good_annotations_have_no_faults() -> None:
    assert validate_annotations(UNKNOWN) == []
    assert validate_annotations({}) == []
    assert validate_annotations({"read_only_hint": True, "tags": ["a"], "complexity": "simple", "cost_hint": 0}) == []


def test_read_only_and_destructive_contradict_each_other() -> None:
    faults = validate_annotations(Annotations(read_only_hint=True, destructive_hint=True))

    assert faults == ["Tool cannot be both readOnly and destructive - these are conflicting hints"]


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("read_only_hint", "yes", "read_only_hint must be true or false, not 'yes'."),
        ("audit_required", 1, "audit_required must be true or false, not 1."),
        ("estimated_duration", "5", "estimated_duration must be a finite number, 0 or more, not '5'."),
        ("rate_limit_hint", -1, "rate_limit_hint must be a finite number, 0 or more, not -1."),
        ("cost_hint", float("nan"), "cost_hint must be a finite number, 0 or more, not nan."),
        ("cost_hint", True, "cost_hint must be a finite number, 0 or more, not True."),
        ("complexity", "hard", "complexity must be one of simple, medium, complex, not 'hard'."),
        ("security_level", 3, "security_level must be one of public, internal, restricted, not 3."),
        ("title", 3, "title must be a text, not 3."),
        ("tags", "a", "tags must be a list of texts, not 'a'."),
        ("tags", ["a", " "], "tags must be texts that are not empty, not ' '."),
        ("readOnly", True, "There is no annotation 'readOnly'."),
    ],
)
def test_a_fault_names_the_field_and_its_value(name: str, value: Any, fault: str) -> None:
    assert validate_annotations({name: value}) == [fault]


def test_the_summary_has_a_fixed_order() -> None:
    hints = Annotations(
        title="Look",
        read_only_hint=True,
        destructive_hint=True,
        idempotent_hint=True,
        requires_confirmation=True,
        complexity="medium",
        estimated_duration=1.5,
        tags=("a", "b"),
    )

    assert get_annotation_summary(hints) == (
        "[Look | read-only | DESTRUCTIVE | idempotent | requires confirmation | medium complexity | ~1.5s | tags: a, b]"
    )
    assert get_annotation_summary(UNKNOWN) == "[no annotations]"


def test_hints_come_from_a_server_and_go_to_a_caller_unchanged() -> None:
    theirs = {"title": "Look", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": True}

    ours = from_mcp({**theirs, "requiresConfirmation": True, "estimatedDuration": 1500, "tags": ["a", "a", "b"]})

    assert to_mcp(ours) == theirs
    assert (ours.requires_confirmation, ours.estimated_duration, ours.tags) == (True, 1.5, ("a", "b"))


def test_members_of_the_wrong_type_say_nothing() -> None:
    odd: dict[str, Any] = {
        "title": 3,
        "readOnlyHint": "true",
        "destructiveHint": 1,
        "idempotentHint": None,
        "tags": "a",
        "costHint": 10**400,
        "rateLimitHint": "5",
        "complexity": [],
    }

    assert from_mcp(odd) == UNKNOWN
    assert to_mcp(UNKNOWN) == {}
