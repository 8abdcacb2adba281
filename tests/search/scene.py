"""What tests about searching share: servers that offer what a test lays out, and callers of either era."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.harness import META, VERSION, Heard, LegacyCaller, ModernCaller, compiled, post, until
from trunkline.gateway.serve import Gateway

SERVER = Path(__file__).with_name("shelf_server.py")

Json = dict[str, Any]
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
OWN = ["search_tools", "call_tool"]
AUTO = [*OWN, "run_code"]
"""What `auto` lists where callers search."""


@dataclass(frozen=True)
class Shelf:
    """One server, and the folder with what it offers."""

    folder: Path
    name: str
    era: str = "both"

    @property
    def config(self) -> Json:
        """How the gateway starts it."""
        return {"command": sys.executable, "args": ["-S", compiled(SERVER), str(self.folder), self.name, self.era]}

    def put(self, kind: str, items: Sequence[Any] | str) -> Shelf:
        """Offer these `tools`, `prompts`, `resources` or `templates`; a text is sent as it is."""
        text = items if isinstance(items, str) else json.dumps(items)
        new = self.folder / f"{kind}.new"
        new.write_text(text)
        new.replace(self.folder / f"{kind}.json")
        return self

    async def announce(self) -> None:
        """Have it tell that its tools changed, as soon as anybody listens."""
        await until(lambda: self.log("listened"))
        self._signal(signal.SIGUSR1)

    async def change(self, tools: Sequence[Any]) -> None:
        """Offer other tools, and tell of it."""
        self.put("tools", tools)
        await self.announce()

    async def speak(self) -> None:
        """Have it say something outside any call."""
        await until(lambda: self.log("listened"))
        self._signal(signal.SIGUSR2)

    def calls(self, tool: str = "") -> list[str]:
        """Every call that reached it, with the arguments as they came."""
        return [line for line in self._lines("calls") if line.startswith(tool)]

    def log(self, words: str = "") -> list[str]:
        """What else it wrote down."""
        return [line for line in self._lines("log") if line.startswith(words)]

    def _lines(self, file: str) -> list[str]:
        path = self.folder / file
        return path.read_text().splitlines() if path.exists() else []

    def _signal(self, number: int) -> None:
        for line in self.log("start"):
            try:
                os.kill(int(line.split()[1]), number)
            except ProcessLookupError:
                continue


def shelf(folder: Path, name: str, tools: Sequence[Any] | str = (), *, era: str = "both") -> Shelf:
    """A server with these tools."""
    own = folder / f"shelf-{name}"
    own.mkdir()
    return Shelf(own, name, era).put("tools", tools if isinstance(tools, str) else list(tools))


def tool(name: str, description: str = "", properties: Json | None = None, **more: Any) -> Json:
    """A definition of a tool, whose properties are required but for those with a default."""
    found = properties or {}
    required = [key for key, about in found.items() if "default" not in about]
    schema = {"type": "object", "properties": found, "required": required}
    return {"name": name, "description": description or f"Does {name}.", "inputSchema": schema, **more}


def plenty(count: int, name: str = "tool") -> list[Json]:
    """So many tools with nothing to tell them apart but a number."""
    return [tool(f"{name}_{number}", f"Does thing number {number}.") for number in range(count)]


SEND = tool(
    "send_letter",
    "Send a letter to somebody by post.",
    {"to": {"type": "string", "description": "Whom"}, "stamps": {"type": "integer", "default": 1}},
)
BAKE = tool("bake_bread", "Bake a loaf of bread in the oven.", {"flour": {"type": "string"}})
GEESE = tool("count_geese", "Count the geese on the pond.")
SOME = [SEND, BAKE, GEESE]


async def requester(opened: Gateway, http: aiohttp.ClientSession, era: str, profile: str = "", **options: Any) -> Any:
    """A caller of an era, at the address of a profile."""
    url = f"{opened.url}/{profile}" if profile else opened.url
    if era == "modern":
        return ModernCaller(url, http)
    return await LegacyCaller(url, http, **options).open()


async def listed(caller: Any, method: str = "tools/list") -> list[str]:
    """The names, or addresses, in a list."""
    heard = await caller.request(method)
    kind, key = {
        "tools/list": ("tools", "name"),
        "prompts/list": ("prompts", "name"),
        "resources/list": ("resources", "uri"),
        "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    }[method]
    return [item[key] for item in heard.result[kind]]


async def searched(caller: Any, query: str = "", **arguments: Any) -> Json:
    """What `search_tools` answers."""
    asked = {"query": query, **arguments} if query else arguments
    heard = await caller.call("search_tools", asked)
    assert not heard.result.get("isError"), heard.text
    return json.loads(heard.text)


async def found(caller: Any, query: str, **arguments: Any) -> list[str]:
    """The names that `search_tools` gives."""
    return [one["name"] for one in (await searched(caller, query, **arguments))["tools"]]


async def used(caller: Any, name: str, arguments: Any = None, **rest: Any) -> Heard:
    """A call through `call_tool`."""
    given: Json = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return await caller.call("call_tool", given, **rest)


def refusal(heard: Heard) -> str:
    """The text of a result that says what was wrong with a call."""
    assert heard.result.get("isError") is True, heard.message
    return heard.text


async def used_raw(caller: ModernCaller | LegacyCaller, arguments: str) -> Heard:
    """A call of `call_tool` whose arguments are this text, byte for byte."""
    modern = isinstance(caller, ModernCaller)
    stamp = f',"_meta":{json.dumps(META)}' if modern else ""
    params = f'{{"name":"call_tool","arguments":{arguments}{stamp}}}'
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'
    own = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "call_tool"} if modern else {}
    return await post(caller.http, caller.url, body.encode(), {**caller.headers, **own})


def servers(*shelves: Shelf) -> dict[str, Json]:
    """The part of a configuration that starts these servers, each under its own name."""
    return {one.name: one.config for one in shelves}
