"""Trunkline is as good a client to a server as the SDK's: what the official suite says of clients, through Trunkline.

The suite serves, a caller on the SDK calls, once directly and once through Trunkline. The scenarios about
authorization are left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.suite import SUITE, read

ROOT = Path(__file__).parents[2]
NODE = Path(sys.executable).with_name("node")
CALLER = f"{sys.executable} -m tests.conformance.client_via"

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SCENARIOS = {
    LEGACY: (
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ),
    MODERN: (
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ),
}
"""The versions of the protocol, and the scenarios of the suite that are about clients but not about authorization."""

ERAS = {LEGACY: "legacy", MODERN: "modern"}

MEETS_A_HANDSHAKE = "For a legacy caller Trunkline first tries the handshake, and to this scenario that is a mistake."
CROSSING_CANNOT = {
    (MODERN, "request-metadata"): MEETS_A_HANDSHAKE,
    (MODERN, "http-standard-headers"): MEETS_A_HANDSHAKE,
}
"""What fails when the caller is of the other era than the server, and why that is right."""

EACH = [(version, scenario) for version, scenarios in SCENARIOS.items() for scenario in scenarios]

pytestmark = [pytest.mark.slow, pytest.mark.parametrize(("version", "scenario"), EACH)]


@dataclass(frozen=True)
class Verdict:
    """What the suite says of a client."""

    passed: bool
    objections: tuple[str, ...]
    said: str
    """The words of the suite and of the caller, for whoever wonders."""


def examine(version: str, scenario: str, output: Path, **environment: str) -> Verdict:
    """Let the suite serve one scenario to a caller."""
    command = [str(NODE), str(ROOT / ".tools" / SUITE), "client", "--command", CALLER, "--scenario", scenario]
    command += ["--spec-version", version, "--output-dir", str(output)]
    env = {**os.environ, **environment}
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    checks = [check for path in output.glob("*/checks.json") for check in read(path)]
    assert checks, ended.stderr
    bad = (f"{check.label}: {check.message}" for check in checks if check.status in ("FAILURE", "WARNING"))
    return Verdict(ended.returncode == 0, tuple(bad), ended.stdout + ended.stderr)


def test_the_caller_itself_passes(version: str, scenario: str, tmp_path: Path) -> None:
    direct = examine(version, scenario, tmp_path, TRUNKLINE_DIRECT="1")

    assert direct.objections == ()
    assert direct.passed, direct.said


def test_trunkline_passes_in_its_place(version: str, scenario: str, tmp_path: Path) -> None:
    through = examine(version, scenario, tmp_path)

    assert through.objections == ()
    assert through.passed, through.said


def test_trunkline_passes_for_a_caller_of_the_other_era(version: str, scenario: str, tmp_path: Path) -> None:
    other = "modern" if ERAS[version] == "legacy" else "legacy"
    through = examine(version, scenario, tmp_path, TRUNKLINE_CALLER=other)

    assert (through.passed and not through.objections) == ((version, scenario) not in CROSSING_CANNOT), through.said
