"""Texts cut into pieces."""

from __future__ import annotations

import pytest

from trunkline.search.minilm import WordPiece

PIECES = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "get", "weather", "##s", "##fore", "##cast", "zurich", ".", "_", "5", "##°"),
    *("黄", "。", "[", "]", "mask", "a", "##a"),
)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("get WEATHER", ["get", "weather"]),
        ("get_weathers.", ["get", "_", "weather", "##s", "."]),
        ("weatherforecast", ["weather", "##fore", "##cast"]),
        ("weatherx", ["[UNK]"]),
        ("Zürich", ["zurich"]),
        ("5°", ["5", "##°"]),
        ("黄get。", ["黄", "get", "。"]),
        ("ge\x00t\u200b", ["get"]),
        ("get\n\tget", ["get", "get"]),
        ("[MASK]", ["[", "mask", "]"]),
        ("a" * 101, ["[UNK]"]),
        ("a" * 100, ["a", *["##a"] * 99]),
    ],
)
def test_a_text_is_cut_as_the_model_learned_it(text: str, pieces: list[str]) -> None:
    numbers = WordPiece(PIECES).encode(text, most=128)

    assert [PIECES[number] for number in numbers] == ["[CLS]", *pieces, "[SEP]"]


def test_a_long_text_is_cut_off_before_its_end_mark() -> None:
    numbers = WordPiece(PIECES).encode("get weather " * 1_000_000, most=8)

    assert [PIECES[number] for number in numbers] == ["[CLS]", *["get", "weather"] * 3, "[SEP]"]
