"""The matrix says of each revision what the specification says of it."""

from __future__ import annotations

import pytest

from trunkline.tools.convert.matrix import REVISIONS, TOOL_COMPATIBILITY, compatibility_of


@pytest.mark.parametrize(
    ("feature", "since"),
    [
        ("annotations", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]),
        ("output_schema", ["2025-06-18", "2025-11-25", "2026-07-28"]),
        ("title", ["2025-06-18", "2025-11-25", "2026-07-28"]),
        ("icons", ["2025-11-25", "2026-07-28"]),
        ("execution", ["2025-11-25"]),
        ("any_output", ["2026-07-28"]),
        ("batch_execution", ["2025-03-26"]),
        ("streaming_results", []),
    ],
)
def test_what_each_revision_has(feature: str, since: list[str]) -> None:
    assert [revision for revision in REVISIONS if getattr(compatibility_of(revision), feature)] == since


def test_every_format_takes_arguments() -> None:
    assert all(known.input_schema for known in TOOL_COMPATIBILITY.values())


def test_our_own_tools_have_categories_and_tags() -> None:
    ours = TOOL_COMPATIBILITY["TRUNKLINE"]

    assert ours.categories
    assert ours.tags
    assert not TOOL_COMPATIBILITY["MCP_2026_07_28"].tags
