"""The breaker itself: what it breaks is broken, and what it passes over still exists."""

from __future__ import annotations

import ast

from tests.mutants.operators import mutants_of
from tests.mutants.targets import BROKEN, equivalents, text_of

RULE = '''
LIMIT = 10

def check(size: int, name: bytes) -> None:
    """Refuse what is too long."""
    if size > LIMIT or name.lower() == NAME:
        raise ValueError(f"{size} is more than {LIMIT}")
'''


def test_every_way_to_break_a_rule_is_found() -> None:
    assert {mutant.name for mutant in mutants_of(RULE)} == {
        "module: LIMIT = 10 -> LIMIT = 10 * 4",
        "check: if size > LIMIT or name.lower() == NAME -> if not (size > LIMIT or name.lower() == NAME)",
        "check: if size > LIMIT or name.lower() == NAME -> nothing",
        "check: size > LIMIT or name.lower() == NAME -> size > LIMIT and name.lower() == NAME",
        "check: size > LIMIT or name.lower() == NAME -> name.lower() == NAME",
        "check: size > LIMIT or name.lower() == NAME -> size > LIMIT",
        "check: size > LIMIT -> size >= LIMIT",
        "check: size > LIMIT -> size <= LIMIT",
        "check: name.lower() == NAME -> name.lower() != NAME",
        "check: name.lower() == NAME -> name.lower() in NAME",
        "check: name.lower() -> name",
    }


def test_a_mutant_differs_in_its_one_place() -> None:
    original = ast.unparse(ast.parse(RULE)).splitlines()
    for mutant in mutants_of(RULE):
        broken = ast.unparse(mutant.applied(RULE)).splitlines()
        if len(broken) == len(original):
            assert sum(old != new for old, new in zip(original, broken, strict=True)) == 1, mutant.name


def test_what_is_called_equivalent_is_a_mutant_and_has_a_reason() -> None:
    for file, listed in equivalents().items():
        assert file in BROKEN
        names = {mutant.name for mutant in mutants_of(text_of(file))}
        assert {name for name in listed if name not in names} == set(), file
        assert all(reason.endswith(".") for reason in listed.values())
