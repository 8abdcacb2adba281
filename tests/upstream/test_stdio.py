"""Subprocesses that take their time."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.questions.scene import FORMS, Pair, scene, yes


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
