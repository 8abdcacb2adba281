"""What the tests of commands share."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.inside import running_gateway
from tests.harness import faulty


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder whose name is always as long: lines with it in them break at the same place, wherever tests run."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def one_served(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of a gateway with one server, for all that only look at it."""
    with running_gateway(tmp_path_factory.mktemp("gateway"), {"one": faulty()}) as url:
        yield url


@pytest.fixture(scope="module")
def two_served(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The same with another server, which does not start."""
    with running_gateway(
        tmp_path_factory.mktemp("gateway"), {"one": faulty(), "bad": faulty("--start", "exit")}
    ) as url:
        yield url
