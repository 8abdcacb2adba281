"""What the official conformance suite says about a server written with trunkline.authoring."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.conformance.suite import run
from tests.harness import NODE

ROOT = Path(__file__).parents[2]
SCENARIOS = {"2025-11-25": 33, "2026-07-28": 40}
"""The versions of the protocol, and how many scenarios of the suite are about each."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    """The address of the fixture."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.authoring.fixture", "--port", "0"], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stderr is not None
        yield process.stderr.readline().rpartition(" ")[2].strip()
    finally:
        process.terminate()
        process.communicate(timeout=10)


@pytest.mark.parametrize("version", SCENARIOS)
def test_it_passes_every_scenario(version: str, url: str, tmp_path: Path) -> None:
    results = run(url, version, suite_dir=ROOT / ".tools", node=NODE, output=tmp_path)

    failed = [scenario for scenario, statuses in results.items() if "FAILURE" in statuses.values()]
    assert (failed, len(results)) == ([], SCENARIOS[version])
