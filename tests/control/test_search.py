"""Searching through a hub: what it learns from calls, where its vectors come from, and what vendors get."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.harness import make_config
from trunkline import open_hub
from trunkline.control.search import RemoteEmbedder
from trunkline.errors import ConfigError, ProtocolError, TrunklineError, UnreachableError

TWINS = """
import sys
from mcp.server import MCPServer
server = MCPServer("twins")
@server.tool()
def convert_alpha(text: str) -> str:
    "Convert a text into another form."
    return "a"
@server.tool()
def convert_omega(text: str) -> str:
    "Convert a text into another form."
    return "o"
@server.tool(name="files.read")
def read(path: str) -> str:
    "Read a file."
    return f"read {path}"
server.run()
"""


@pytest.fixture
def twins(tmp_path: Path) -> dict[str, Any]:
    script = tmp_path / "twins.py"
    script.write_text(TWINS)
    return {"twins": {"command": sys.executable, "args": [str(script)]}}


async def test_of_tools_that_fit_alike_the_one_that_served_this_user_comes_first(
    tmp_path: Path, twins: dict[str, Any]
) -> None:
    async with open_hub(make_config(tmp_path / "home", twins, sections={"search": {"strategy": "bm25"}})) as hub:
        await hub.ready(20)
        before = [found.tool.shown for found in await hub.find("convert a text", user="ana", limit=2)]
        await hub.call(before[1], {"text": "x"}, user="ana")
        after = [found.tool.shown for found in await hub.find("convert a text", user="ana", limit=2)]
        others = [found.tool.shown for found in await hub.find("convert a text", user="bob", limit=2)]

    assert after == before[::-1]
    assert others == before


async def test_with_learn_switched_off_nothing_changes_what_is_found(tmp_path: Path, twins: dict[str, Any]) -> None:
    sections = {"search": {"strategy": "bm25", "learn": False}}
    async with open_hub(make_config(tmp_path / "home", twins, sections=sections)) as hub:
        await hub.ready(20)
        before = await hub.find("convert a text", limit=2)
        await hub.call(before[1].tool.shown, {"text": "x"})
        after = await hub.find("convert a text", limit=2)

    assert [found.tool.shown for found in after] == [found.tool.shown for found in before]


async def test_a_vendor_s_name_for_a_tool_leads_back_to_it(tmp_path: Path, twins: dict[str, Any]) -> None:
    async with open_hub(make_config(tmp_path / "home", twins)) as hub:
        await hub.ready(20)
        tools = await hub.tools(format="anthropic", defer=True, keep=("convert_alpha",))
        named = {tool["name"]: tool for tool in tools}
        name = next(name for name in named if name.startswith("files"))
        result = await hub.call(name, {"path": "x"})

    assert name != "files.read"
    assert result.text == "read x"
    assert named["convert_omega"]["defer_loading"] is True
    assert not named["convert_alpha"].get("defer_loading")


async def test_a_format_that_nobody_has_is_refused_with_those_there_are(tmp_path: Path, twins: dict[str, Any]) -> None:
    async with open_hub(make_config(tmp_path / "home", twins)) as hub:
        with pytest.raises(ConfigError) as refused:
            await hub.tools(format="cobol")

    assert "anthropic" in str(refused.value)


# A service that makes vectors.


@asynccontextmanager
async def service(answer: Any, status: int = 200) -> AsyncGenerator[tuple[str, list[Any]]]:
    asked: list[Any] = []

    async def embed(request: web.Request) -> web.Response:
        asked.append((request.headers, await request.json()))
        made = answer(asked[-1][1]) if callable(answer) else answer
        return web.Response(text=made if isinstance(made, str) else json.dumps(made), status=status)

    app = web.Application()
    app.router.add_post("/v1/embeddings", embed)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        assert runner.addresses
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1/embeddings", asked
    finally:
        await runner.cleanup()


def vectors_of(body: dict[str, Any]) -> dict[str, Any]:
    rows = [{"index": place, "embedding": [float(len(text)), 1.0]} for place, text in enumerate(body["input"])]
    return {"data": rows[::-1]}


async def test_a_service_is_asked_for_its_model_with_its_token_and_its_rows_are_put_in_order() -> None:
    async with service(vectors_of) as (url, asked):
        embedder = RemoteEmbedder(url, "small", "s3cret")
        rows = await embedder.embed(["a", "bbb"], query=True)
        embedder.close()

    assert rows == [[1.0, 1.0], [3.0, 1.0]]
    headers, body = asked[0]
    assert headers["authorization"] == "Bearer s3cret"
    assert body == {"model": "small", "input": ["a", "bbb"]}
    assert "s3cret" not in embedder.model


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [("no", 200, ProtocolError), ({"data": [{"embedding": "x"}]}, 200, ProtocolError), ({}, 500, UnreachableError)],
)
async def test_a_service_that_fails_is_named_in_an_error_without_its_token(
    answer: Any, status: int, error: type[TrunklineError]
) -> None:
    async with service(answer, status) as (url, _):
        embedder = RemoteEmbedder(url, "small", "s3cret")
        with pytest.raises(error) as raised:
            await embedder.embed(["a"], query=False)
        embedder.close()

    assert "127.0.0.1" in str(raised.value)
    assert "s3cret" not in str(raised.value)


async def test_a_hub_finds_by_words_while_its_service_for_vectors_is_away(
    tmp_path: Path, twins: dict[str, Any]
) -> None:
    away = {"embeddings_url": "http://127.0.0.1:9/v1/embeddings", "embeddings_model": "small"}
    async with open_hub(make_config(tmp_path / "home", twins, sections={"search": away})) as hub:
        await hub.ready(20)
        found = await hub.find("read a file", limit=1)

    assert [one.tool.shown for one in found] == ["files.read"]


def test_a_service_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="embeddings_model"):
        make_config(tmp_path, {}, sections={"search": {"embeddings_url": "http://127.0.0.1:9"}})
