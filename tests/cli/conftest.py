"""What the tests of commands share."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder whose name is always as long: lines with it in them break at the same place, wherever tests run."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)
