"""The table in the documentation is whole; that it is true is for the test of each cell to say."""

from __future__ import annotations

from tests.fidelity.features import FEATURES, IMPOSSIBLE
from tests.fidelity.table import FILE, written
from tests.fidelity.test_fidelity import CELLS


def test_the_table_has_every_feature_and_a_mark_for_every_cell_that_is_tested() -> None:
    text = FILE.read_text(encoding="utf-8")

    assert text == written(lambda feature, column: True), "run `python -m tests.fidelity.table`"
    # Each mark is confirmed by the test of its cell, which reads it here when it has passed.
    assert sum(line.count("| ✓ ") for line in text.splitlines()) == len(CELLS)


def test_every_reason_is_given_and_used() -> None:
    used = {reason for feature in FEATURES for reason in feature.cannot.values()}

    assert used == set(IMPOSSIBLE)
