"""What a stranger reads: every command has help, with examples that can be typed as they are."""

from __future__ import annotations

import argparse
import re
import shlex
from functools import cache
from typing import Any, cast

import pytest

from trunkline.cli.main import parser

# Making it takes longer than all that is done with it.
whole = cache(parser)


def commands() -> dict[str, argparse.ArgumentParser]:
    actions: list[Any] = vars(whole())["_actions"]
    return cast("dict[str, argparse.ArgumentParser]", actions[-1].choices)


def examples(text: str) -> list[str]:
    """The commands in a help text, without what is said beside them."""
    lines = [line.strip() for line in text.partition("examples:")[2].splitlines()]
    return [re.split(r"\s{2,}", line)[0] for line in lines if line.startswith("trunkline ")]


@pytest.mark.parametrize("name", commands())
def test_every_command_has_examples_that_can_be_typed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = examples(commands()[name].format_help())

    assert found
    for example in found:
        words = shlex.split(example)[1:]
        if ">" in words:
            words = words[: words.index(">")]
        assert hasattr(whole().parse_args(words), "run"), example


@pytest.mark.parametrize("name", commands())
def test_help_fits_a_terminal_of_common_width(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    before = commands()[name].format_help().partition("examples:")[0]

    assert max(map(len, before.splitlines())) <= 80


@pytest.mark.parametrize("name", commands())
def test_everything_that_can_be_typed_is_explained(name: str) -> None:
    actions: list[Any] = vars(commands()[name])["_actions"]

    assert [action.dest for action in actions if not action.help and not isinstance(action.choices, dict)] == []
