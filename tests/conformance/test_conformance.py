"""What the official conformance suite says about a server is no worse through Trunkline than without."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.suite import differences, run
from tests.harness import NODE, Start, trunkline_up

FIXTURE = Path(__file__).with_name("fixture.py")
TOOLS = Path(__file__).parents[2] / ".tools"

SCENARIOS = {"2025-11-25": 33, "2026-07-28": 40}
"""The versions of the protocol, and how many scenarios of the suite are about each."""

ONLY_HTTP = [
    "Check server-sse-priming-event of server-sse-polling is SUCCESS directly, but WARNING through.",
    "Check server-sse-retry-field of server-sse-polling is SUCCESS directly, but WARNING through.",
    "Check server-sse-disconnect-resume of server-sse-polling is SUCCESS directly, but INFO through.",
]
"""What a server cannot do on standard input and output: hang up in the middle of a call, to be polled for the rest.

Nothing is failed by it: a server need not hang up, and Trunkline, which is never told to, answers at once.
"""

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("version", SCENARIOS)]

Results = dict[str, dict[str, str]]
Examine = Callable[[str, str], Results]


@pytest.fixture(scope="module")
def examine(tmp_path_factory: pytest.TempPathFactory) -> Examine:
    """Run the suite against an address, once for each version."""
    output = tmp_path_factory.mktemp("results")
    return cache(lambda url, version: run(url, version, suite_dir=TOOLS, node=NODE, output=output))


@pytest.fixture(scope="module")
def fixture_url(sdk_server: Start) -> Generator[str]:
    """The address of the fixture, served over HTTP."""
    started = sdk_server(str(FIXTURE), "--port", "0")
    process = subprocess.Popen([started["command"], *started["args"]], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        word, port = process.stdout.readline().split()
        assert word == "PORT"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.communicate(timeout=10)


@pytest.fixture(scope="module")
def through_http(fixture_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of Trunkline in front of that."""
    with through({"url": fixture_url}, tmp_path_factory.mktemp("http")) as url:
        yield url


@pytest.fixture(scope="module")
def through_stdio(sdk_server: Start, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of Trunkline in front of the fixture as a program."""
    with through(sdk_server(str(FIXTURE), "--stdio"), tmp_path_factory.mktemp("stdio")) as url:
        yield url


def passed(results: Mapping[str, Mapping[str, str]]) -> int:
    return sum("FAILURE" not in statuses.values() for statuses in results.values())


@contextmanager
def through(server: dict[str, Any], folder: Path) -> Generator[str]:
    """The address of Trunkline in front of a server, once that has started."""
    with trunkline_up(folder, {"mcpServers": {"fixture": server}}) as (url, _):
        until_ready(url)
        yield url


def until_ready(url: str) -> None:
    """Wait for the servers: on a busy machine one may start more slowly than callers are kept waiting for it."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(url.removesuffix("/mcp") + "/readyz"):
                return
        except urllib.error.HTTPError as refused:
            refused.close()
        time.sleep(0.05)
    pytest.fail("The server did not start.")


def test_the_fixture_passes_every_scenario(version: str, fixture_url: str, examine: Examine) -> None:
    direct = examine(fixture_url, version)

    assert (passed(direct), len(direct)) == (SCENARIOS[version], SCENARIOS[version])


def test_nothing_is_lost_over_http(version: str, fixture_url: str, through_http: str, examine: Examine) -> None:
    direct = examine(fixture_url, version)
    through = examine(through_http, version)

    assert differences(direct, through) == []
    assert passed(through) == SCENARIOS[version]


@pytest.mark.timeout(300)  # every scenario is a session, and every session that may be asked has a process of its own
def test_nothing_that_stdio_can_do_is_lost_over_it(
    version: str, fixture_url: str, through_stdio: str, examine: Examine
) -> None:
    direct = examine(fixture_url, version)
    through = examine(through_stdio, version)

    lost = [sentence for sentence in differences(direct, through) if sentence not in ONLY_HTTP]
    assert lost == []
    assert passed(through) == SCENARIOS[version]
