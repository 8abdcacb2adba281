"""A server of one's own: tools, a resource, a prompt, a question, a workflow; called here, and through a hub."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trunkline import (
    AgentExposureManager,
    Config,
    Elicitation,
    ExposableWorkflow,
    MCPServerBase,
    ToolServer,
    WorkflowStep,
    ask,
    create_json_resource,
    open_hub,
    report_progress,
)

shop = ToolServer("shop", "Sells hats.")
STOCK = {"fedora": 3, "beret": 0}


@shop.tool
def get_stock(hat: str) -> dict[str, int]:
    """How many of a hat there are.

    Args:
        hat: Its name, such as fedora.
    """
    if hat not in STOCK:
        raise ValueError(f"There is no hat {hat!r}. There are: {', '.join(STOCK)}.")
    return {hat: STOCK[hat]}


@shop.tool
async def order(hat: str) -> str:
    """Order a hat; the size is asked for."""
    report_progress(0, 2, "asking")
    answer = await ask(f"Which size of {hat}?", size=["S", "M", "L"])
    if not answer:
        return "Nothing was ordered."
    report_progress(1, 2, "ordering")
    return f"Ordered: {hat}, size {answer['size']}."


@shop.resource("hat://{name}")
def hat(name: str) -> str:
    """A hat, described."""
    return f"A {name}, of which there are {STOCK.get(name, 0)}."


@shop.prompt
def praise(hat: str) -> str:
    """Praise a hat."""
    return f"Write one sentence in praise of a {hat}."


class Office(MCPServerBase):
    """The other door: a class, with a life of its own."""

    def __init__(self) -> None:
        super().__init__(id="office", description="Looks after people.")
        self.capabilities.register_resource(create_json_resource("office://hours", "Hours", {"open": 9, "close": 17}))
        exposed = AgentExposureManager(enable_logging=False)
        exposed.expose_workflow(onboarding)
        self.register_tools(exposed.get_exposed_tools())

    async def on_start(self) -> None:
        print("The office opens.")

    async def on_stop(self) -> None:
        print("The office closes.")


def check(given: dict[str, Any], before: Mapping[str, Any]) -> str:
    if "@" not in given["email"]:
        raise ValueError("That is no e-mail address.")
    return "checked"


def create(given: dict[str, Any], before: Mapping[str, Any]) -> dict[str, str]:
    return {"user": given["email"].partition("@")[0]}


onboarding = ExposableWorkflow(
    id="onboarding-flow",
    name="User onboarding",
    description="Create an account for a new user.",
    steps=(WorkflowStep("check", "Check input", check), WorkflowStep("create", "Create account", create)),
    input_schema={"type": "object", "properties": {"email": {"type": "string"}}, "required": ["email"]},
)


async def main() -> None:
    print("Called here:")
    print(" ", (await shop.execute_tool("get_stock", {"hat": "fedora"})).structured)
    print(" ", (await shop.execute_tool("get_stock", {"hat": 7})).text)
    print("  only read:", [tool.name for tool in shop.get_read_only_tools()])

    async def medium(question: Elicitation) -> str:
        print(f"  asked: {question.message}")
        return "M"

    print("Through a hub:")
    async with open_hub(Config(home=Path(tempfile.mkdtemp()))) as hub:
        hub.elicitation.register_handler(medium)
        await hub.mount(shop)
        await hub.mount(Office())
        print(" ", (await hub.call("shop__order", {"hat": "beret"})).text)
        created = await hub.call("office__workflow_user_onboarding", {"email": "ana@example.org"})
        print(" ", created.structured)


if __name__ == "__main__":
    asyncio.run(main())  # as a program of its own: shop.run("stdio") or shop.run("http", port=8000)
