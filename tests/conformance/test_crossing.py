"""Callers of one era reach servers of the other: the official suite of each, through Trunkline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.conformance.suite import differences, run
from tests.harness import NODE, LegacyCaller, ModernCaller, trunkline_up

HERE = Path(__file__).parent
TOOLS = Path(__file__).parents[2] / ".tools"
LEGACY_SERVER = [str(TOOLS / "legacy" / "bin" / "python"), str(HERE / "legacy_fixture.py")]
MODERN_SERVER = [sys.executable, str(HERE / "fixture.py"), "--era", "modern"]

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SCENARIOS = {LEGACY: 33, MODERN: 40}
"""The versions of the protocol, and how many scenarios of the suite are about each."""

MODERN_CALLERS_CANNOT = {
    # The scenario wants the question under the key `user_name`, and a legacy question has no name to make a key of.
    "input-required-result-basic-elicitation": {"sep-2322-elicitation-incomplete": "FAILURE"},
    # The scenario answers before it is asked, and a legacy server puts its question in every call.
    "input-required-result-ignore-extra-params": {"sep-2322-ignore-unexpected-params": "WARNING"},
}
"""The checks of the modern suite that a legacy server behind Trunkline misses, where nothing can be done about it."""

LEGACY_CALLERS_CANNOT = {
    # A modern server cannot hang up in mid-call to be polled for the rest, so Trunkline has no reason to.
    "server-sse-polling": {"server-sse-priming-event": "WARNING", "server-sse-retry-field": "WARNING"},
}
"""The checks of the legacy suite that a modern server behind Trunkline misses, where nothing can be done about it."""

CAPABILITIES = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}}}
ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ann"}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Hello."}, "model": "none"},
    "roots/list": {"roots": [{"uri": "file:///home/ann"}]},
}

pytestmark = pytest.mark.slow

Results = dict[str, dict[str, str]]


@contextmanager
def served(command: list[str]) -> Generator[str]:
    """A server of the suite's as a process of its own; its address."""
    process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        word, port = process.stdout.readline().split()
        assert word == "PORT"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.communicate(timeout=10)


def examine(url: str, version: str, output: Path) -> Results:
    return run(url, version, suite_dir=TOOLS, node=NODE, output=output / "results")


def missed(results: Results) -> Results:
    """The scenarios that failed, or passed with a warning, and the checks in question."""
    bad = {
        scenario: {check: status for check, status in statuses.items() if status in ("FAILURE", "WARNING")}
        for scenario, statuses in results.items()
    }
    return {scenario: checks for scenario, checks in bad.items() if checks}


@pytest.fixture(scope="module")
def legacy_url() -> Generator[str]:
    """The address of a server that knows sessions alone."""
    with served(LEGACY_SERVER) as url:
        yield url


@pytest.fixture(scope="module")
def through_to_legacy(legacy_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of Trunkline in front of it."""
    with trunkline_up(tmp_path_factory.mktemp("legacy"), {"mcpServers": {"fixture": {"url": legacy_url}}}) as (url, _):
        yield url


@pytest.fixture(scope="module")
def modern_url() -> Generator[str]:
    """The address of a server that refuses sessions."""
    with served(MODERN_SERVER) as url:
        yield url


async def test_without_trunkline_the_eras_do_not_understand_each_other(legacy_url: str, modern_url: str) -> None:
    async with aiohttp.ClientSession() as http:
        discovered = await ModernCaller(legacy_url, http).request("server/discover")
        begun = await LegacyCaller(modern_url, http).request("initialize", {"protocolVersion": LEGACY})

    assert "error" in discovered.message
    assert "error" in begun.message


def test_legacy_callers_lose_nothing_at_a_legacy_server(
    legacy_url: str, through_to_legacy: str, tmp_path: Path
) -> None:
    direct = examine(legacy_url, LEGACY, tmp_path / "direct")
    through = examine(through_to_legacy, LEGACY, tmp_path / "through")

    assert (missed(direct), len(direct)) == ({}, SCENARIOS[LEGACY])
    assert differences(direct, through) == []
    assert (missed(through), len(through)) == ({}, SCENARIOS[LEGACY])


def test_modern_callers_can_do_at_a_legacy_server_what_can_be_done(through_to_legacy: str, tmp_path: Path) -> None:
    through = examine(through_to_legacy, MODERN, tmp_path)

    assert missed(through) == MODERN_CALLERS_CANNOT
    assert len(through) == SCENARIOS[MODERN]


def test_legacy_callers_can_do_at_a_modern_server_what_can_be_done(modern_url: str, tmp_path: Path) -> None:
    with trunkline_up(tmp_path, {"mcpServers": {"fixture": {"url": modern_url}}}) as (url, _):
        through = examine(url, LEGACY, tmp_path)

    assert missed(through) == LEGACY_CALLERS_CANNOT
    assert len(through) == SCENARIOS[LEGACY]


async def test_questions_that_a_legacy_server_asks_at_once_reach_a_modern_caller_at_once(
    through_to_legacy: str,
) -> None:
    params = {"name": "test_input_required_result_multiple_inputs", "arguments": {}}
    async with aiohttp.ClientSession() as http:
        caller = ModernCaller(through_to_legacy, http)
        asked = (await caller.request("tools/call", params, meta=CAPABILITIES)).result
        questions = {key: one["method"] for key, one in asked["inputRequests"].items()}
        answers = {key: ANSWERS[method] for key, method in questions.items()}
        again = {**params, "requestState": asked["requestState"], "inputResponses": answers}
        result = (await caller.request("tools/call", again, meta=CAPABILITIES)).result

    assert sorted(questions.values()) == sorted(ANSWERS)
    assert all(word in str(result["content"]) for word in ("Ann", "Hello.", "file:///home/ann"))
