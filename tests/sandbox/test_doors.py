"""What a caller or its programs may not call is unknown at every door, in the words for what never was."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.harness import LegacyCaller, ModernCaller, gateway
from tests.tenancy.shelf import Shelf, open_shelves
from tests.tenancy.test_people import Admin
from trunkline import MCPServerBase, Tool
from trunkline.errors import ProgramError
from trunkline.gateway.api.routes import status_of
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]
OFFICE = {"desk": ["direct"], "ours": ["run_code"], "nobody": [], "odd": "all", "vault": None, "open": None}
"""Tools, and who may call each as it says itself; the key of the caller leaves `vault` out."""
MISSING = "office__never"
FOR_NOBODY = ("office__nobody", "office__odd", "office__vault", "mine__read_note", "bob/mine__read_note")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class House:
    """A gateway with an office for everybody and a server of bob's, seen by ana."""

    opened: Gateway
    http: aiohttp.ClientSession
    key: str
    done: list[str]
    shelf: Shelf

    def caller(self, profile: str = "") -> ModernCaller:
        return ModernCaller(f"{self.opened.url}{profile}", self.http, token=self.key)

    async def task(self, tool: str, arguments: Json) -> Json:
        """A call as a task, by a legacy caller."""
        legacy = LegacyCaller(self.opened.url, self.http)
        legacy.headers["authorization"] = f"Bearer {self.key}"
        await legacy.open()
        params = {"name": tool, "arguments": arguments, "task": {}}
        return (await legacy.request("tools/call", params)).message


async def direct(house: House, tool: str) -> Any:
    return (await house.caller("/plain").call(tool)).message


async def through(house: House, tool: str) -> Any:
    return (await house.caller("/finds").call("call_tool", {"name": tool, "arguments": {}})).message


async def program(house: House, tool: str) -> Any:
    return (await house.caller().call("run_code", {"code": f"await {tool.replace('/', '_')}()"})).message


async def as_task(house: House, tool: str) -> Any:
    return await house.task(tool, {})


async def program_as_task(house: House, tool: str) -> Any:
    return await house.task("run_code", {"code": f"await {tool.replace('/', '_')}()"})


async def over_api(house: House, tool: str) -> Any:
    return await Admin(house.opened, house.http, house.key)("POST", f"tools/{tool.replace('/', '%2F')}/call", {})


Door = Callable[[House, str], Awaitable[Any]]
OUTSIDE: tuple[Door, ...] = (direct, through, as_task, over_api)
INSIDE: tuple[Door, ...] = (program, program_as_task)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[House]:
    profiles = {"profiles": {"plain": {"expose": "all"}, "finds": {"expose": "search"}}}
    home, done, shelf = tmp_path_factory.mktemp("home"), list[str](), Shelf("of bob")
    office = MCPServerBase(id="office", name="office")
    for name, callers in OFFICE.items():
        said: Json = {} if callers is None else {"meta": {"allowed_callers": callers}}
        office.register_tool(Tool(name, "Do it", execute=lambda _, name=name: done.append(name) or "done", **said))
    async with (
        open_shelves(shelf),
        gateway(home, {}, expose="code", namespace="always", sections=profiles) as opened,
        aiohttp.ClientSession() as http,
    ):
        await opened.hub.mount(office)
        admin = Admin(opened, http)
        key = await admin.key("ana", tools=[f"office__{name}" for name in OFFICE if name != "vault"])
        bob = await admin.key("bob")
        assert (await Admin(opened, http, bob)("POST", "servers", {"name": "mine", "url": shelf.url}))[0] == 201
        yield House(opened, http, key, done, shelf)


def told(answer: Any, tool: str) -> str:
    """What was answered, whatever tool it was about; advice looks at what is called alike."""
    text = str(answer)
    for spelt in (tool, tool.replace("/", "_"), tool.replace("/", "%2F")):
        text = text.replace(spelt, "TOOL")
    return re.sub(r"did you mean [^?]*\?|find one with search_tools.", "ADVICE", text, flags=re.IGNORECASE)


@pytest.mark.parametrize("door", [*OUTSIDE, *INSIDE])
async def test_what_may_not_be_called_is_told_of_as_what_never_was(house: House, door: Door) -> None:
    others = ["office__ours"] if door in OUTSIDE else ["office__desk"]
    house.done.clear()

    raw = {tool: await door(house, tool) for tool in (MISSING, *FOR_NOBODY, *others)}
    answers = {tool: told(answer, tool) for tool, answer in raw.items()}
    agreed = await door(house, "office__open")

    assert set(answers.values()) == {answers[MISSING]}
    assert "TOOL" in answers[MISSING]
    assert not any(name in str(raw[MISSING]) for name in (*FOR_NOBODY, *others))
    assert told(agreed, "office__open") != answers[MISSING]
    assert house.done == ([] if door is as_task else ["open"])  # which does not offer to be a task


async def test_what_another_user_has_to_read_is_told_of_as_what_never_was(house: House) -> None:
    caller = house.caller()

    answers = [
        str((await caller.request("resources/read", {"uri": uri})).error).replace(uri, "URI")
        for uri in ("note://nowhere/first", house.shelf.uri)
    ]

    assert answers[0] == answers[1]


async def test_a_program_that_fails_is_what_its_sender_has_to_mend() -> None:
    assert status_of(ProgramError("Line 1: no."))[0] == 422
