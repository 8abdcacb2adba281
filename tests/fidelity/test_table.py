"""The table in the documentation says what the tests found."""

from __future__ import annotations

from tests.fidelity.features import FEATURES, IMPOSSIBLE
from tests.fidelity.table import FILE, written
from tests.fidelity.test_fidelity import CELLS


def test_the_table_is_what_the_tests_found() -> None:
    tested = {cell.id for cell in CELLS}

    expected = written(lambda feature, column: f"{feature.id}-{column}" in tested)

    assert FILE.read_text(encoding="utf-8") == expected, "run `python -m tests.fidelity.table`"


def test_every_reason_is_given_and_used() -> None:
    used = {reason for feature in FEATURES for reason in feature.cannot.values()}

    assert used == set(IMPOSSIBLE)
