"""Fixtures of the doctor's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.scene import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    """A machine on which nothing is configured yet."""
    return Machine(tmp_path, monkeypatch, capsys)
