"""One line for each call, and nothing secret in it."""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import Any

import pytest

from tests.call.middleware.scene import DESTROYER, Recorder, tool
from trunkline.call.middleware.chain import ToolContext
from trunkline.call.middleware.confirm import confirmation_middleware
from trunkline.call.middleware.integration import ToolIntegrationManager
from trunkline.call.middleware.logs import create_logging_middleware, one_line
from trunkline.errors import UnreachableError
from trunkline.tool import Annotations, Tool, ToolResult


async def logged(
    caplog: pytest.LogCaptureFixture, *outcomes: object, annotations: Annotations = DESTROYER, **context: Any
) -> str:
    ticks = count()
    logging_middleware = create_logging_middleware(clock=lambda: next(ticks) / 4)
    manager = ToolIntegrationManager([logging_middleware, confirmation_middleware])
    manager.register_tool(tool(Recorder(*outcomes), annotations, server="files"))
    with caplog.at_level(logging.INFO, logger="trunkline.tools"):
        try:
            await manager.execute_tool("t", {"password": "hunter2"}, ToolContext(**context))
        except UnreachableError:
            pass
    assert len(caplog.records) == 1
    return caplog.records[0].getMessage()


async def test_a_line_says_who_used_what_and_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    line = await logged(caplog, "fine", user="ann", confirmed=True)

    assert line == "tool=t server=files user=ann outcome=answered duration=0.250s"


@pytest.mark.parametrize(
    ("outcome", "confirmed", "word"),
    [
        (ToolResult.failed("no"), True, "failed"),
        (ValueError("no"), True, "failed"),
        ("never run", False, "cancelled"),
        (UnreachableError("gone"), True, "UnreachableError"),
    ],
)
async def test_a_line_tells_ends_apart(
    caplog: pytest.LogCaptureFixture, outcome: object, confirmed: bool, word: str
) -> None:
    line = await logged(caplog, outcome, confirmed=confirmed)

    assert f"outcome={word} " in line


async def test_values_of_arguments_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert "hunter2" not in await logged(caplog, "fine", confirmed=True)


async def test_a_call_that_was_withdrawn_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    running = asyncio.Event()

    async def wait(params: dict[str, Any]) -> None:
        running.set()
        await asyncio.Event().wait()

    manager = ToolIntegrationManager([create_logging_middleware()]).register_tool(tool(wait))
    with caplog.at_level(logging.INFO, logger="trunkline.tools"):
        call = asyncio.create_task(manager.execute_tool("t"))
        await asyncio.wait_for(running.wait(), 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert "outcome=interrupted" in caplog.records[0].getMessage()


async def test_a_name_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    forged = "t\r\ntool=other\u2028\x1b[2K"
    manager = ToolIntegrationManager([create_logging_middleware()])
    manager.register_tool(Tool(forged, execute=Recorder()))

    with caplog.at_level(logging.INFO, logger="trunkline.tools"):
        await manager.execute_tool(forged, context=ToolContext(user="a\nb"))

    line = caplog.records[0].getMessage()
    assert line.isprintable()
    assert r"tool=t\r\ntool=other\u2028\x1b[2K" in line
    assert r"user=a\nb" in line


@pytest.mark.parametrize(("name", "shown"), [("plain", "plain"), ("größe", "größe"), ("x" * 500, "x" * 199 + "…")])
def test_ordinary_names_stay_as_they_are_and_long_ones_are_cut(name: str, shown: str) -> None:
    assert one_line(name) == shown
