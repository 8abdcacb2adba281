"""Both engines behind one fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.postgres import Make
from trunkline.storage.store import Place, place_of


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store of either kind."""
    if request.param == "sqlite":
        return place_of("", tmp_path)
    make: Make = request.getfixturevalue("postgres")
    return place_of(make(), tmp_path)
