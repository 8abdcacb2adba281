"""What tests of the stages share: a gateway before tellers, callers, and what really reached the servers."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.harness import Heard, LegacyCaller, ModernCaller, gateway, make_config, plain_server
from trunkline.config.options import Config
from trunkline.gateway.serve import Gateway
from trunkline.hub import Hub

TELLER = Path(__file__).with_name("teller.py")
LEDGER = Path(__file__).with_name("ledger.py")
USERS = {"ana": "the-long-token-of-ana", "bob": "the-long-token-of-bob"}
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}

Json = dict[str, Any]


@dataclass
class Till:
    """A gateway, and the file into which its servers write every call."""

    opened: Gateway
    http: aiohttp.ClientSession
    folder: Path

    @property
    def hub(self) -> Hub:
        """The hub of the gateway."""
        return self.opened.hub

    def modern(self, user: str = "") -> ModernCaller:
        """A modern caller."""
        return ModernCaller(self.opened.url, self.http, token=USERS.get(user, ""))

    async def legacy(self, capabilities: Json | None = None) -> LegacyCaller:
        """A legacy caller with a session."""
        return await LegacyCaller(self.opened.url, self.http, capabilities=capabilities).open()

    def calls(self, words: str = "") -> list[str]:
        """What reached the servers so far, in order: lines that hold the words."""
        return calls(self.folder, words)

    def go(self) -> None:
        """Let slow calls be answered."""
        (self.folder / "log.go").touch()

    async def apply(self, servers: Json, **sections: Json) -> list[str]:
        """Give the hub another configuration; the servers stay if nothing of theirs changed."""
        return await self.hub.apply(self.config(servers, **sections))

    def config(self, servers: Json, **sections: Json) -> Config:
        """A configuration of the same home."""
        return make_config(self.folder / "home", servers, sections=sections)


def calls(folder: Path, words: str = "") -> list[str]:
    """What reached the servers that write into this folder's file."""
    log = folder / "log"
    return [line for line in log.read_text().splitlines() if words in line] if log.exists() else []


def teller(folder: Path, name: str = "till", *, ttl: str = "", more: list[Json] | None = None, **options: Any) -> Json:
    """The configuration of a teller; `more` are the definitions of further tools."""
    definitions = folder / f"{name}.json"
    definitions.write_text(json.dumps(more or []))
    return plain_server(str(TELLER), str(folder / "log"), name, ttl, str(definitions), **options)


def marked(folder: Path, *tools: str, **options: Any) -> Json:
    """One teller, to some of whose tools a person must agree."""
    mark = {"requires_confirmation": True}
    return {"till": teller(folder, tools=dict.fromkeys(tools, mark), **options)}


def ledger(folder: Path, name: str = "till", **options: Any) -> Json:
    """The configuration of a server that the SDK made."""
    return {"command": sys.executable, "args": [str(LEDGER), str(folder / "log"), name], **options}


@asynccontextmanager
async def till(
    folder: Path, http: aiohttp.ClientSession, servers: Json | None = None, *, users: bool = False, **sections: Json
) -> AsyncGenerator[Till]:
    """A gateway before one teller, or the given servers, with these sections in its configuration."""
    options: Json = {"users": USERS} if users else {}
    wanted = servers or {"till": teller(folder)}
    async with gateway(folder / "home", wanted, sections=sections, **options) as opened:
        yield Till(opened, http, folder)


def able(capabilities: Json = FORMS) -> Json:
    """The metadata by which a modern caller says what it can be asked."""
    return {"io.modelcontextprotocol/clientCapabilities": capabilities}


def asked(heard: Heard) -> Json:
    """The questions of a result that asks."""
    return heard.result["inputRequests"] if heard.result.get("resultType") == "input_required" else {}


async def answer(caller: ModernCaller, tool: str, arguments: Json, heard: Heard, given: Json, **rest: Any) -> Heard:
    """A modern caller's next request: every question of the last answer gets what is given."""
    answers = dict.fromkeys(asked(heard), given)
    params = {"name": tool, "arguments": arguments, "inputResponses": answers}
    params["requestState"] = heard.result["requestState"]
    return await caller.request("tools/call", params, **{"meta": able(), **rest})
