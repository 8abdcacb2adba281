"""The gateway that tests of several modules share."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.real.parts import Running, five, running


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """One gateway in front of five real servers."""
    folder = tmp_path_factory.mktemp("gateway")
    with running(folder, five(folder)) as opened:
        yield opened
