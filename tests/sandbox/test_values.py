"""What a tool gave, as programs have it: read beside the interpreter, and never on the gateway's loop."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.harness import TESTS
from trunkline import Config, ProgramsSection, ServerSpec, open_hub
from trunkline.sandbox.values import read_blocks, read_value

SERVER = TESTS / "sandbox" / "shop_server.py"
TEXT = b'[{"type":"text","text":%s}]'
DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"", None),
        (b"[]", None),
        (b'"no list"', None),
        (b'["no block"]', "no block"),
        (TEXT % b'"plain words"', "plain words"),
        (TEXT % b'"{\\"a\\": [1, null]}"', {"a": [1, None]}),
        (TEXT % b'"null"', None),
        (TEXT % b'"NaN"', "NaN"),
        (TEXT % b'"1 2"', "1 2"),
        (TEXT % b'"half \\ud83d"', "half ?"),
        (TEXT % b'"whole \\ud83d\\ude00"', "whole \N{GRINNING FACE}"),
        (TEXT % b'"\\"half \\\\uD83D\\""', "half ?"),
        (TEXT % (b'"' + DEEP + b'"'), DEEP.decode()),
        (b'[{"type":"text","text":"1"},{"type":"text","text":"b"}]', [1, "b"]),
        (b'[{"type":"image","data":"aa"}]', {"type": "image", "data": "aa"}),
    ],
)
def test_blocks_are_their_one_text_read_where_it_is_json_else_what_they_are(content: bytes, value: Any) -> None:
    assert read_blocks(content) == value


def test_structured_content_is_what_it_says_but_for_halves_of_characters() -> None:
    assert read_value(b'{"a":"\\ud83d","b":[1.5]}') == {"a": "?", "b": [1.5]}


@pytest.mark.parametrize(("broken", "problem"), [(b"{", "Expecting"), (DEEP, "nested too deeply")])
def test_what_is_no_json_is_told_as_such(broken: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_value(broken)


async def test_a_large_result_is_never_made_into_objects_where_the_gateway_is(tmp_path: Path) -> None:
    many = 300_000  # lists: 0.9 MB as text, 20 as objects
    shop = ServerSpec("shop", command=sys.executable, args=("-S", str(SERVER), str(tmp_path / "orders")))
    limits = ProgramsSection(memory=2**28, compute=60.0)
    async with open_hub(Config(home=tmp_path, servers={"shop": shop}, programs=limits)) as hub:
        assert (await hub.run("len((await stock(item='1'))['all'])")).value == 1
        tracemalloc.start()
        try:
            value = (await hub.run(f"len((await stock(item='{many}'))['all'])")).value
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert value == many
    assert most < 10 * 2**20
