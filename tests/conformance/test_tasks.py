"""What the official suite says about tasks holds for a legacy server behind Trunkline."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import gateway

TOOLS = Path(__file__).parents[2] / ".tools"
NODE = Path(sys.executable).with_name("node")
SUITE = TOOLS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
FIXTURE = Path(__file__).with_name("legacy_tasks_fixture.py")

SCENARIOS = (
    "lifecycle",
    "capability-negotiation",
    "dispatch-and-envelope",
    "request-state-removal",
    "required-task-error",
    "wire-fields",
    "request-headers",
    "mrtr-input",
)
"""All but two: one the suite skips itself; the other asks before the call becomes a task, which is refused on stdio."""

pytestmark = pytest.mark.slow


async def examine(url: str, scenario: str, output: Path) -> list[dict[str, Any]]:
    """Run one scenario; extensions are on no version's list, and so must be forced."""
    command = [str(NODE), str(SUITE), "server", "--url", url, "--scenario", f"tasks-{scenario}", "--force"]
    command += ["--spec-version", "2026-07-28", "--output-dir", str(output)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    await asyncio.wait_for(process.wait(), 60)
    return read(output)


def read(output: Path) -> list[dict[str, Any]]:
    (results,) = output.rglob("checks.json")
    return json.loads(results.read_text())


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_legacy_servers_tasks_pass_for_those_of_the_extension(tmp_path: Path, scenario: str) -> None:
    server = {"command": str(TOOLS / "legacy/bin/python"), "args": [str(FIXTURE)]}
    async with gateway(tmp_path / "home", {"old": server}) as opened:
        checks = await examine(opened.url, scenario, tmp_path / "results")

    assert checks
    assert [check.get("errorMessage") for check in checks if check["status"] != "SUCCESS"] == []
