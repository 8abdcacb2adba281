"""Subprocesses that take their time."""

from __future__ import annotations

import sys
from pathlib import Path

import aiohttp
import pytest

from tests.harness import gateway
from tests.questions.scene import FORMS, Pair, scene, yes

LEAVES = """
import os, sys, threading
sys.stdin.buffer.readline()
os.close(0)
os.write(1, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}\\n')
threading.Event().wait(0.05)
os._exit(3)
"""
"""A server that stops listening a moment before it ends."""


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_that_is_late_is_met_in_its_own_era(
    tmp_path: Path, http: aiohttp.ClientSession, era: str
) -> None:
    """The question about its era is given up after half of `start_timeout`, and is waiting for it when it comes."""
    pair = Pair("modern", era, "stdio")
    async with scene(tmp_path, http, pair, "--late", "1.2", server={"start_timeout": 2.0}) as at:
        told = await (await at.talker(FORMS)).call("shop__order", at.args("tea"), yes)
        view = at.opened.hub.servers()[0]

    assert view.introduction is not None
    assert view.introduction.modern == (era == "modern")
    assert told.text == "ordered tea"


async def test_of_a_server_that_stops_listening_and_then_ends_it_is_said_how_it_ended(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"bad": {"command": sys.executable, "args": ["-c", LEAVES]}}) as opened:
        (view,) = opened.hub.servers()

    assert "exited with code 3" in view.reason
