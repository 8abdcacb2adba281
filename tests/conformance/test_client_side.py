"""Trunkline is as good a client to a server as the SDK's: what the official suite says of clients, through Trunkline.

The suite serves all scenarios of a version at once, a caller on the SDK calls, once directly and once through
Trunkline. The scenarios about authorization are left out.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.conformance import callers
from tests.conformance.callers import Era, Scenario
from tests.conformance.suite import SUITE, read, scenario_of
from tests.harness import NODE

ROOT = Path(__file__).parents[2]
RELAY = Path(__file__).with_name("relay.py")

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

ERAS: dict[str, Era] = {LEGACY: "legacy", MODERN: "modern"}
OTHERS: dict[str, Era] = {LEGACY: "modern", MODERN: "legacy"}

CROSSING_CANNOT: dict[tuple[str, str], set[str]] = {
    (MODERN, "request-metadata"): {
        "sep-2575-http-client-sends-version-header",
        "sep-2575-client-populates-meta",
        "sep-2575-client-sends-client-info",
        "sep-2575-client-retry-supported-version",
    },
    (MODERN, "http-standard-headers"): {"sep-2243-client-includes-standard-headers (ClientMcpMethodHeader_initialize)"},
}
"""The checks that object when the caller is of the other era than the server: for a legacy caller Trunkline first tries
the handshake, and to these scenarios that is a mistake."""

EACH = [(version, scenario) for version, scenarios in SCENARIOS.items() for scenario in scenarios]

pytestmark = [pytest.mark.slow, pytest.mark.parametrize(("version", "scenario"), EACH)]


Play = Callable[[Scenario, Path], Awaitable[None]]
Examine = Callable[[str, str], "dict[str, Verdict]"]


@dataclass(frozen=True)
class Verdict:
    """What the suite says of a client."""

    objections: dict[str, str]
    """What was said against it, by check."""
    wrong: str
    """What went wrong for the caller itself."""


@pytest.fixture(scope="module")
def examine(tmp_path_factory: pytest.TempPathFactory) -> Examine:
    """Let the suite serve a version to a caller of a kind, once."""
    kinds: dict[str, Play] = {
        "direct": lambda asked, _: callers.play(asked, ERAS[asked.version]),
        "through": lambda asked, home: callers.play_through(asked, ERAS[asked.version], home),
        "crossing": lambda asked, home: callers.play_through(asked, OTHERS[asked.version], home),
    }
    return cache(lambda version, kind: asyncio.run(verdicts(version, kinds[kind], tmp_path_factory.mktemp(kind))))


async def verdicts(version: str, play: Play, folder: Path) -> dict[str, Verdict]:
    """What the suite says of a caller in every scenario of ours."""
    wrong: dict[str, str] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = Scenario(**json.loads(await reader.readline()))
        if asked.scenario in SCENARIOS[version]:
            try:
                await play(asked, folder / asked.scenario)
                wrong[asked.scenario] = ""
            except Exception:  # whatever it is, the suite is told, and the test shows it
                wrong[asked.scenario] = traceback.format_exc()
        writer.write(wrong.get(asked.scenario, "not played").encode())
        writer.close()
        await writer.wait_closed()

    command = ["client", "--command", f"{sys.executable} -I -S {RELAY} {folder / 'socket'}", "--suite", "all"]
    command += ["--spec-version", version, "--timeout", "60000", "--output-dir", str(folder / "results")]
    async with await asyncio.start_unix_server(answer, folder / "socket"), asyncio.timeout(90):
        suite = await asyncio.create_subprocess_exec(
            str(NODE),
            str(ROOT / ".tools" / SUITE),
            *command,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await suite.wait()
    found = {scenario_of(path.parent): read(path) for path in (folder / "results").glob("*/checks.json")}
    return {
        scenario: Verdict(
            {one.label: one.message for one in found[scenario] if one.status in ("FAILURE", "WARNING")},
            wrong[scenario],
        )
        for scenario in SCENARIOS[version]
    }


def test_the_caller_itself_passes(version: str, scenario: str, examine: Examine) -> None:
    direct = examine(version, "direct")[scenario]

    assert direct.objections == {}
    assert not direct.wrong, direct.wrong


def test_trunkline_passes_in_its_place(version: str, scenario: str, examine: Examine) -> None:
    through = examine(version, "through")[scenario]

    assert through.objections == {}
    assert not through.wrong, through.wrong


def test_trunkline_passes_for_a_caller_of_the_other_era(version: str, scenario: str, examine: Examine) -> None:
    through = examine(version, "crossing")[scenario]

    assert set(through.objections) == CROSSING_CANNOT.get((version, scenario), set()), through
    assert not through.wrong, through
