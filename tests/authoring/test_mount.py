"""Servers of one's own in a hub of the same process: like any other server, through the same stages."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import LegacyCaller, ModernCaller, faulty, gateway, make_config, until
from trunkline import (
    Elicitation,
    Hub,
    Tool,
    ToolContext,
    ToolServer,
    ask,
    open_hub,
    to_anthropic,
    to_gemini,
    to_mcp_tool,
    to_openai,
)
from trunkline.config.options import Config, MiddlewareSection
from trunkline.errors import ConfigError, InvalidArgumentsError, ServerRefusedError, UnknownNameError
from trunkline.tools.convert.loss import Converted

Convert = Callable[[Any], Converted[dict[str, Any]]]


def shop() -> ToolServer:
    server = ToolServer("shop", "Sells.")

    @server.tool
    async def order(what: str) -> str:
        """Order something."""
        answer = await ask(f"Which size of {what}?", size=["S", "M"])
        return f"{what} in {answer.get('size')}"

    @server.tool
    def get_price(sku: str) -> dict[str, float]:
        """The price of a product."""
        return {sku: 9.99}

    @server.resource("stock://{sku}")
    def stock(sku: str) -> str:
        return f"3 of {sku}"

    @server.prompt
    def pitch(sku: str) -> str:
        return f"Praise {sku}."

    return server


@asynccontextmanager
async def hub_with(server: ToolServer, home: Path, **sections: Any) -> AsyncGenerator[Hub]:
    async with open_hub(Config(home=home, **sections)) as hub:
        await hub.mount(server)
        yield hub


async def test_its_tools_are_called_like_any_others(tmp_path: Path) -> None:
    async with hub_with(shop(), tmp_path) as hub:
        names = {entry.shown for entry in await hub.tools()}
        result = await hub.call("get_price", {"sku": "hat"})
        hints = hub.annotations("get_price")

    assert names == {"order", "get_price"}
    assert result.structured == {"hat": 9.99}
    assert hints is not None
    assert hints.read_only_hint is True


async def test_what_the_hub_lists_can_be_written_for_every_vendor(tmp_path: Path) -> None:
    async with hub_with(shop(), tmp_path) as hub:
        entry = next(entry for entry in await hub.tools() if entry.shown == "get_price")
        made = [await hub.tools(format=form) for form in ("anthropic", "openai-chat", "openai", "gemini", "mcp")]

    responses = partial(to_openai, format="responses")
    alone: list[Convert] = [to_anthropic, to_openai, responses, to_gemini, to_mcp_tool]
    assert [[convert(entry).value] for convert in alone] == [[given[1]] for given in made]
    for convert in alone:
        with pytest.raises(ConfigError, match=r"str is no tool\. .*hub\.tools\(\)"):
            convert("get_price")


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "a tool that is no name": ((5,), {}, "by its name, not by int"),
    "arguments without names": (("get_price", ["hat"]), {}, "have no names. Pass a dict"),
    "an argument that is no JSON": (("get_price", {"sku": object()}), {}, "'sku' of tool 'get_price'"),
    "a lone surrogate": (("get_price", {"sku": "\ud800"}), {}, "'sku' of tool 'get_price'"),
    "a time that is none": (("get_price", {"sku": "hat"}), {"timeout": "5"}, "number of seconds"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_of_a_wrong_type_is_our_error_with_a_hint(tmp_path: Path, what: str) -> None:
    given, options, complaint = WRONG[what]
    async with hub_with(shop(), tmp_path) as hub:
        with pytest.raises(InvalidArgumentsError, match=complaint):
            await hub.call(*given, **options)


@pytest.mark.parametrize("source", [5, [{"name": "x"}], {"servers": {}}])
async def test_what_is_no_configuration_is_our_error_with_a_hint(source: Any) -> None:
    with pytest.raises(ConfigError, match=r"is no server and no configuration\. Give a `Config`"):
        async with open_hub(source):
            pass


async def test_a_name_that_nobody_has_comes_with_the_one_that_was_meant(tmp_path: Path) -> None:
    other = ToolServer("other", "Has more.")

    @other.tool
    def get_weather() -> str:  # type: ignore[reportUnusedFunction]
        return "fine"

    async with hub_with(shop(), tmp_path) as hub:
        await hub.mount(other)
        with pytest.raises(UnknownNameError, match=r"Did you mean 'shop__get_price'\?"):
            await hub.call("shop_get_prise")
        with pytest.raises(UnknownNameError) as far:
            await hub.call("xyzzy")

    assert far.value.hint == ""


async def test_its_questions_reach_the_hubs_handler(tmp_path: Path) -> None:
    async def answer(question: Elicitation) -> str:
        return "M"

    async with hub_with(shop(), tmp_path) as hub:
        with pytest.raises(ServerRefusedError, match="cannot be asked"):
            await hub.call("order", {"what": "hat"})
        hub.elicitation.register_handler(answer)
        result = await hub.call("order", {"what": "hat"})

    assert result.text == "hat in M"


async def test_calls_pass_the_stages(tmp_path: Path) -> None:
    seen: list[str] = []

    async def watch(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: Any) -> Any:
        seen.append(f"{tool.server} {tool.name}")
        return await call_next()

    async with hub_with(shop(), tmp_path, middleware=MiddlewareSection(validate=True)) as hub:
        hub.use(watch)
        await hub.call("get_price", {"sku": "hat"})

    assert seen == ["shop get_price"]


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "legacy"])
async def test_callers_of_the_gateway_have_its_tools_resources_and_prompts(
    tmp_path: Path, http: aiohttp.ClientSession, modern: bool
) -> None:
    async with gateway(tmp_path, {"other": faulty()}) as opened:
        await opened.hub.mount(shop())
        caller = ModernCaller(opened.url, http) if modern else await LegacyCaller(opened.url, http).open()
        tools = (await caller.request("tools/list")).result["tools"]
        price = await caller.call("shop__get_price", {"sku": "hat"})
        stock = await caller.request("resources/read", {"uri": "stock://hat"})
        pitch = await caller.request("prompts/get", {"name": "shop__pitch", "arguments": {"sku": "hat"}})

    assert {"shop__order", "shop__get_price"} < {tool["name"] for tool in tools}
    assert price.result["structuredContent"] == {"hat": 9.99}
    assert stock.result["contents"][0]["text"] == "3 of hat"
    assert pitch.result["messages"][0]["content"]["text"] == "Praise hat."


async def test_a_tool_that_comes_later_is_seen(tmp_path: Path) -> None:
    server = shop()
    async with hub_with(server, tmp_path) as hub:
        server.register_tool(lambda: "late", name="later")
        await until(lambda: "later" in hub.snapshot.tools)
        server.remove_tool("later")
        await until(lambda: "later" not in hub.snapshot.tools)


async def test_unmounting_stops_it_and_takes_its_tools_away(tmp_path: Path) -> None:
    server = shop()
    async with hub_with(server, tmp_path) as hub:
        assert server.running
        await hub.unmount("shop")

        assert await hub.tools() == []
        assert not server.running
        with pytest.raises(ConfigError, match="No server 'shop' is mounted"):
            await hub.unmount("shop")
        assert await hub.mount(server, "again") == "again"
        assert (await hub.call("get_price", {"sku": "hat"})).structured == {"hat": 9.99}


async def test_it_stops_with_the_hub_unless_it_ran_before(tmp_path: Path) -> None:
    mine, theirs = shop(), shop()
    await mine.start()
    async with hub_with(mine, tmp_path) as hub:
        await hub.mount(theirs, "other")

    assert (mine.running, theirs.running) == (True, False)
    await mine.stop()


async def test_a_call_under_way_ends_when_its_server_is_unmounted(tmp_path: Path) -> None:
    server = shop()
    begun, ended = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with hub_with(server, tmp_path) as hub, asyncio.timeout(10):
        calling = asyncio.ensure_future(hub.call("wait"))
        await begun.wait()
        await hub.unmount("shop")
        await ended.wait()
        with pytest.raises(Exception, match="shop"):
            await calling


async def test_it_stays_when_another_configuration_is_taken_on(tmp_path: Path) -> None:
    async with hub_with(shop(), tmp_path) as hub:
        other = dataclasses.replace(make_config(tmp_path, {"files": faulty()}))
        news = await hub.apply(other)

        assert news == ["added files"]
        assert {view.name for view in hub.servers()} == {"files", "shop"}


async def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    async with hub_with(shop(), tmp_path) as hub:
        with pytest.raises(ConfigError, match="already is a server"):
            await hub.mount(shop())
        assert len(hub.servers()) == 1


async def test_a_server_that_does_not_start_is_not_mounted(tmp_path: Path) -> None:
    class Broken(ToolServer):
        async def on_start(self) -> None:
            raise OSError("no database")

    async with open_hub(Config(home=tmp_path)) as hub:
        with pytest.raises(OSError, match="no database"):
            await hub.mount(Broken("broken"))
        assert hub.servers() == []


def test_a_file_cannot_name_a_server_of_this_process(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no option 'local'"):
        make_config(tmp_path, {"shop": {"command": "x", "local": "y"}})
