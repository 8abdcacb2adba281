"""What is broken, which tests should notice, and which breaks nobody could notice."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from tests.mutants.operators import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "trunkline"
BAR = 0.95

BROKEN = (
    "call/middleware/confirm.py",
    "call/suspended.py",
    "config/secrets.py",
    "gateway/guard.py",
    "gateway/http.py",
    "gateway/mcp/legacy.py",
    "gateway/mcp/modern.py",
    "gateway/mcp/parking.py",
    "gateway/mcp/sessions.py",
    "gateway/mcp/stream.py",
    "gateway/request.py",
    "storage/files.py",
    "upstream/http1.py",
    "wire/seal.py",
)
"""Guard, parked calls, seals, sessions, HTTP of both sides, secrets, agreement: what keeps somebody out."""

TESTS = (
    "tests/call/middleware",
    "tests/call/stages",
    "tests/config",
    "tests/gateway",
    "tests/questions",
    "tests/storage",
    "tests/upstream",
    "tests/wire",
)
"""Where the tests are that may notice; which of them run a line is measured."""


@cache
def equivalents() -> dict[str, dict[str, str]]:
    """By file and mutant, why nobody could tell it from the original."""
    return tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text(encoding="utf-8"))


@cache
def text_of(file: str) -> str:
    """A module as it is."""
    return (SOURCE / file).read_text(encoding="utf-8")


def mutants(words: list[str]) -> list[tuple[str, Mutant]]:
    """What is to be broken, with its file; without what is known to change nothing."""
    return [
        (file, mutant)
        for file in BROKEN
        for mutant in mutants_of(text_of(file))
        if mutant.name not in equivalents().get(file, {})
        and (not words or any(word in f"{file} {mutant.name}" for word in words))
    ]
