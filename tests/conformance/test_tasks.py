"""What the official suite says about tasks holds for a legacy server behind Trunkline."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import NODE, Start, gateway

TOOLS = Path(__file__).parents[2] / ".tools"
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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def results(old_sdk: Start, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What the suite says in each scenario; most of them wait, so all run at once, each with a server of its own."""

    async def examine_all() -> dict[str, list[dict[str, Any]]]:
        folder = tmp_path_factory.mktemp("tasks")
        found = await asyncio.gather(*(examine(one, old_sdk(str(FIXTURE)), folder / one) for one in SCENARIOS))
        return dict(zip(SCENARIOS, found, strict=True))

    return asyncio.run(examine_all())


async def examine(scenario: str, server: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Run one scenario; extensions are on no version's list, and so must be forced."""
    async with gateway(folder / "home", {"old": server}) as opened:
        command = [str(NODE), str(SUITE), "server", "--url", opened.url, "--scenario", f"tasks-{scenario}", "--force"]
        command += ["--spec-version", "2026-07-28", "--output-dir", str(folder / "results")]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        await asyncio.wait_for(process.wait(), 100)
    return read(folder / "results")


def read(output: Path) -> list[dict[str, Any]]:
    (results,) = output.rglob("checks.json")
    return json.loads(results.read_text())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_legacy_servers_tasks_pass_for_those_of_the_extension(
    scenario: str, results: dict[str, list[dict[str, Any]]]
) -> None:
    checks = results[scenario]

    assert checks
    assert [check.get("errorMessage") for check in checks if check["status"] != "SUCCESS"] == []
