"""Assertions of the checks say what was compared."""

import pytest

pytest.register_assert_rewrite("tests.fidelity.case", "tests.fidelity.features", "tests.fidelity.callers")
