"""A long prompt taken apart."""

from __future__ import annotations

import pytest

from tests.search.tools import filled
from trunkline.search.bm25 import Bm25Index
from trunkline.search.finder import parts, search_each, search_steps
from trunkline.search.text import ToolText

TASK = (
    "Look up the weather forecast for Oslo, draw a bar chart of the temperature numbers, write it to a file "
    "and send the result to Ann by email."
)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("read and write files", ["read and write files"]),
        ("", [""]),
        (
            TASK,
            [
                "Look up the weather forecast for Oslo",
                "draw a bar chart of the temperature numbers",
                "write it to a file",
                "send the result to Ann by email.",
            ],
        ),
        (
            "1. Read the sales sheet\n2. Plot monthly revenue\n3. Mail the picture",
            ["Read the sales sheet", "Plot monthly revenue", "Mail the picture"],
        ),
        ("查询今天的天气预报。发送邮件给小王", ["查询今天的天气预报", "发送邮件给小王"]),
    ],
)
def test_a_prompt_is_taken_apart_into_its_steps(prompt: str, expected: list[str]) -> None:
    assert parts(prompt) == expected


def test_a_prompt_of_any_length_has_a_bounded_number_of_parts() -> None:
    prompt = " ".join(f"Fetch page{chr(97 + number % 26)} of a book, " for number in range(5_000))

    assert len(parts(prompt)) == 8


def test_every_step_of_a_prompt_finds_its_tool() -> None:
    hits = search_steps(filled(Bm25Index()), TASK, limit=5, min_score=0.3)

    found = {hit.key for hit in hits}
    assert {"weather/get_forecast", "charts/bar_chart", "files/write_file", "mail/send_email"} <= found
    assert len(hits) <= 5


def test_the_best_tool_of_a_small_step_is_not_crowded_out() -> None:
    index = Bm25Index()
    for number in range(8):
        index.add(
            ToolText(f"sales/{number:02}", f"sales_report_{number}", description="Quarterly sales report numbers.")
        )
    index.add(ToolText("radio/play", "radio", description="Play music."))
    prompt = "Compare the quarterly sales report with the numbers of the last sales report, then play some music"

    assert "radio/play" not in {hit.key for hit in index.search(prompt, limit=5)}
    hits = search_steps(index, prompt, limit=5, min_score=0.3)

    assert [hit.key for hit in hits] == ["sales/00", "sales/01", "sales/02", "sales/03", "radio/play"]


def test_several_queries_take_turns() -> None:
    hits = search_each(filled(Bm25Index()), ["file", "forecast", "nonsense"], limit=3, min_score=0.3)

    assert {hit.key for hit in hits[:2]} == {"files/read_file", "weather/get_forecast"}
    assert hits[2].key == "files/write_file"


def test_a_tool_found_by_several_queries_is_there_once_with_its_best_score() -> None:
    index = filled(Bm25Index())
    hits = search_each(index, ["a file", "read a file"], limit=10, min_score=0.3)

    keys = [hit.key for hit in hits]
    assert len(keys) == len(set(keys))
    read = next(hit for hit in hits if hit.key == "files/read_file")
    assert read.score == index.search("read a file")[0].score
