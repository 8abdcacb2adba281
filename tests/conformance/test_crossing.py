"""Callers of one era reach servers of the other: the official suite of each, through Trunkline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.conformance.suite import differences, run
from tests.harness import LegacyCaller, ModernCaller, trunkline_up

HERE = Path(__file__).parent
TOOLS = Path(__file__).parents[2] / ".tools"
NODE = Path(sys.executable).with_name("node")
LEGACY_SERVER = [str(TOOLS / "legacy" / "bin" / "python"), str(HERE / "legacy_fixture.py")]
MODERN_SERVER = [sys.executable, str(HERE / "fixture.py"), "--era", "modern"]

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SCENARIOS = {LEGACY: 33, MODERN: 40}
"""The versions of the protocol, and how many scenarios of the suite are about each."""

MODERN_CALLERS_CANNOT = {
    "input-required-result-basic-elicitation": (
        "The scenario wants the question under the key `user_name`, and a legacy question has no name to make a key of."
    ),
    "input-required-result-ignore-extra-params": (
        "The scenario answers before it is asked, and a legacy server puts its question in every call; "
        "the suite only warns."
    ),
}
"""What the modern suite misses in a legacy server behind Trunkline, and why nothing can be done about it."""

LEGACY_CALLERS_CANNOT = {
    "server-sse-polling": (
        "A modern server cannot hang up in mid-call to be polled for the rest, so Trunkline has no reason to: "
        "it answers at once, and the suite only warns."
    ),
}
"""What the legacy suite misses in a modern server behind Trunkline, and why nothing can be done about it."""

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


def examine_through(url: str, version: str, home: Path) -> Results:
    with trunkline_up(home, {"mcpServers": {"fixture": {"url": url}}}) as (gateway, _):
        return examine(gateway, version, home)


def missed(results: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """The scenarios that failed, or passed with a warning, and the checks in question."""
    bad = {
        scenario: [check for check, status in statuses.items() if status in ("FAILURE", "WARNING")]
        for scenario, statuses in results.items()
    }
    return {scenario: checks for scenario, checks in bad.items() if checks}


@pytest.fixture(scope="module")
def legacy_url() -> Generator[str]:
    """The address of a server that knows sessions alone."""
    with served(LEGACY_SERVER) as url:
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


def test_legacy_callers_lose_nothing_at_a_legacy_server(legacy_url: str, tmp_path: Path) -> None:
    direct = examine(legacy_url, LEGACY, tmp_path / "direct")
    through = examine_through(legacy_url, LEGACY, tmp_path)

    assert (missed(direct), len(direct)) == ({}, SCENARIOS[LEGACY])
    assert differences(direct, through) == []
    assert (missed(through), len(through)) == ({}, SCENARIOS[LEGACY])


def test_modern_callers_can_do_at_a_legacy_server_what_can_be_done(legacy_url: str, tmp_path: Path) -> None:
    through = examine_through(legacy_url, MODERN, tmp_path)

    beyond_reason = {one: checks for one, checks in missed(through).items() if one not in MODERN_CALLERS_CANNOT}
    assert beyond_reason == {}
    assert missed(through).keys() == MODERN_CALLERS_CANNOT.keys()
    assert len(through) == SCENARIOS[MODERN]


def test_legacy_callers_can_do_at_a_modern_server_what_can_be_done(modern_url: str, tmp_path: Path) -> None:
    through = examine_through(modern_url, LEGACY, tmp_path)

    beyond_reason = {one: checks for one, checks in missed(through).items() if one not in LEGACY_CALLERS_CANNOT}
    assert beyond_reason == {}
    assert missed(through).keys() == LEGACY_CALLERS_CANNOT.keys()
    assert len(through) == SCENARIOS[LEGACY]


async def test_questions_that_a_legacy_server_asks_at_once_reach_a_modern_caller_at_once(
    legacy_url: str, tmp_path: Path
) -> None:
    params = {"name": "test_input_required_result_multiple_inputs", "arguments": {}}
    with trunkline_up(tmp_path, {"mcpServers": {"fixture": {"url": legacy_url}}}) as (url, _):
        async with aiohttp.ClientSession() as http:
            caller = ModernCaller(url, http)
            asked = (await caller.request("tools/call", params, meta=CAPABILITIES)).result
            questions = {key: one["method"] for key, one in asked["inputRequests"].items()}
            answers = {key: ANSWERS[method] for key, method in questions.items()}
            again = {**params, "requestState": asked["requestState"], "inputResponses": answers}
            result = (await caller.request("tools/call", again, meta=CAPABILITIES)).result

    assert sorted(questions.values()) == sorted(ANSWERS)
    assert all(word in str(result["content"]) for word in ("Ann", "Hello.", "file:///home/ann"))
