"""Fixtures of the tests about other clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.scene import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without any client yet."""
    made = Machine(tmp_path)
    made.home.mkdir()
    made.folder.mkdir()
    return made
