"""Both engines behind one fixture."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.storage.postgres import Databases
from trunkline.storage.store import Place, place_of


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
    """An empty store of either kind."""
    if request.param == "sqlite":
        yield place_of("", tmp_path)
        return
    databases: Databases = request.getfixturevalue("postgres")
    with databases.one() as url:
        yield place_of(url, tmp_path)
