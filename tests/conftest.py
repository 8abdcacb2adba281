"""Fixtures that many tests share, and which tests are slow."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from hypothesis import settings
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs] - it has none, but types of its own
from xdist.scheduler import LoadFileScheduling  # pyright: ignore[reportMissingTypeStubs] - the same

from tests.harness import FORKS, OLD_PYTHON, TESTS, Start, preloaded
from tests.storage.engines import place
from tests.storage.postgres import postgres

__all__ = ["place", "postgres"]  # here, so that the tests of all folders share one PostgreSQL

# Assertions of these say what was compared. Here, because tests of other folders import them too.
pytest.register_assert_rewrite("tests.fidelity.case", "tests.fidelity.features", "tests.fidelity.callers")

# Hundreds of processes import the same modules. Where a shell says that compiled ones are not to be kept, each of them
# would compile everything again, and so would every worker that rewrites the assertions.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that runs the tests in the background has Ctrl-C ignored, and what they start would ignore it as well.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Generated cases are the same in every run, and have the time that a busy machine needs; `make fuzz` makes new ones.
settings.register_profile("steady", derandomize=True, database=None, deadline=None)
settings.register_profile("fuzz", database=None, deadline=None, max_examples=int(os.environ.get("EXAMPLES", "20000")))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

SLOW = (
    "console",
    "test_bench.py",
    "real/test_created.py",
    "cli",
    "conformance",
    "real",
    "frameworks",
    "sandbox/test_survival.py",
    "sandbox/test_run_code.py",
    "faults",
    "gateway",
    "call/stages",
    "search/test_hostile.py",
    "search/test_expose.py",
    "search/test_call_questions.py",
    "search/test_index.py",
    "search/test_catalogue_resource.py",
    "search/test_call_tool.py",
    "search/test_own_names.py",
    "search/test_profiles.py",
    "search/test_search_tools.py",
    "questions/test_answers_over_mcp.py",
    "questions/test_askers.py",
    "questions/test_crowd.py",
    "questions/test_silence.py",
    "questions/test_states.py",
    "questions/test_strays.py",
    "questions/test_own_connections.py",
    "fidelity",
    "doctor",
    "authoring/test_conformance.py",
    "authoring/test_mount.py",
    "authoring/test_running.py",
    "docs",
    "call/tasks",
    "tenancy/oauth/test_real_provider.py",
    "tenancy/test_planted.py",
)
"""What runs end to end, the longest first; `make check` leaves it out."""

QUICK = (
    "call/stages/test_elicit.py",
    "call/stages/test_order.py",
    "cli/test_help.py",
    "gateway/test_ambiguity.py",
    "gateway/test_guard.py",
    "gateway/test_guard_rules.py",
    "gateway/test_http_rules.py",
    "gateway/test_modern.py",
    "gateway/test_request_rules.py",
    "gateway/test_session_rules.py",
    "questions/test_answers_over_mcp.py",
)
"""What is part of `make check` all the same: a little that runs end to end, and rules that are tried without."""


def turn_of(path: Path) -> int:
    """Where a file stands among the slow ones; behind them all if it is not slow."""
    inside = path.relative_to(TESTS)
    names = {str(inside), *map(str, inside.parents)}
    if names.intersection(QUICK):
        return len(SLOW)
    return next((number for number, name in enumerate(SLOW) if name in names), len(SLOW))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not even import what would be left out."""
    left_out = config.option.markexpr == "not slow" and collection_path.suffix == ".py"
    return True if left_out and turn_of(collection_path) < len(SLOW) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no worker has it left when the others are done."""
    for item in items:
        if turn_of(item.path) < len(SLOW):
            item.add_marker("slow")
    items.sort(key=lambda item: turn_of(item.path))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end, and need not be looked through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    """Tests wait for a good part of their time: four workers keep two cores busy."""
    return len(os.sched_getaffinity(0)) * 2 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 2)


TOGETHER = {
    "console": "console",
    "real/test_clients.py": "real",
    "real/test_life.py": "real",
    "real/test_roots.py": "real",
}
"""Files, or all of a folder, that one worker runs, because they share what takes seconds to start."""


class ByFile(LoadFileScheduling):
    """Gives a worker a whole file, or the files that belong together."""

    def _split_scope(self, nodeid: str) -> str:
        file = Path(super()._split_scope(nodeid)).relative_to(TESTS.name)
        return next((TOGETHER[str(one)] for one in (file, *file.parents) if str(one) in TOGETHER), str(file))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile | None:
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_unconfigure() -> None:
    FORKS.close()


@pytest_asyncio.fixture
async def http() -> AsyncGenerator[aiohttp.ClientSession]:
    """An HTTP client without limits of its own."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        yield session


@pytest.fixture(scope="session")
def sdk_server() -> Generator[Start]:
    """Starts servers on the SDK, without the seconds that importing it takes."""
    with preloaded("mcp.server.mcpserver", "mcp.server.stdio", "uvicorn") as start:
        yield start


@pytest.fixture(scope="session")
def old_sdk() -> Generator[Start]:
    """Starts servers and clients on the SDK of the 1.x line."""
    with preloaded("mcp", "mcp.server", "mcp.server.stdio", python=OLD_PYTHON) as start:
        yield start
