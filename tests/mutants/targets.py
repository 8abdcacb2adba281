"""What is broken, which tests should notice, and which breaks nobody could notice."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from tests.mutants.operators import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "trunkline"
BAR = 0.95

BROKEN: dict[str, tuple[str, ...]] = {
    "call/middleware/confirm.py": ("tests/call/middleware",),
    "call/suspended.py": ("tests/call/test_suspended.py",),
    "config/secrets.py": ("tests/config",),
    "control/views.py": ("tests/control/test_view_rules.py", "tests/control/test_views.py"),
    "gateway/guard.py": ("tests/gateway/test_guard_rules.py", "tests/gateway/test_guard.py"),
    "gateway/http.py": ("tests/gateway/test_http_rules.py",),
    "gateway/mcp/legacy.py": (
        "tests/gateway/test_edge_alone.py",
        "tests/gateway/test_edge_rules.py",
        "tests/gateway/test_legacy_alone.py",
    ),
    "gateway/mcp/modern.py": ("tests/gateway/test_edge_alone.py", "tests/gateway/test_edge_rules.py"),
    "gateway/mcp/parking.py": ("tests/gateway/test_parking.py",),
    "gateway/mcp/sessions.py": ("tests/gateway/test_session_rules.py",),
    "gateway/mcp/stream.py": ("tests/gateway/test_session_rules.py",),
    "gateway/request.py": ("tests/gateway/test_request_rules.py",),
    "storage/files.py": ("tests/storage/test_files.py",),
    "upstream/http.py": ("tests/upstream/test_http_rules.py",),
    "upstream/http1.py": ("tests/upstream/test_http1.py",),
    "wire/seal.py": ("tests/wire/test_seal.py",),
}
"""Guard, parked calls, seals, sessions, HTTP of both sides, secrets, agreement, access: what keeps somebody out.

With each the tests that know its rules, few and quick; which of them run a line is measured.
"""


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


def tests_of(found: list[tuple[str, Mutant]]) -> list[str]:
    """The tests that know the rules of what is to be broken."""
    files = {file for file, _ in found}
    return sorted({test for file in files for test in BROKEN[file]})
