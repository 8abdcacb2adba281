"""A shop for programs: tools that read, tools that need agreement, tools that fail, and what was done with them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trunkline import Annotations, Config, Hub, ToolServer, open_hub
from trunkline.config.programs import ProgramsSection
from trunkline.questions.kinds import FormRequest

READS = Annotations(read_only_hint=True)


@dataclass
class Shop:
    """The shop, and what happened in it."""

    bought: list[int] = field(default_factory=list[int])
    asked: list[FormRequest] = field(default_factory=list[FormRequest])
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody who waited in it was told to go."""

    @property
    def server(self) -> ToolServer:
        """Its tools."""
        server = ToolServer(id="shop", name="shop")

        @server.tool(annotations=READS)
        def look(item: int) -> dict[str, Any]:
            """Look an item up.

            Args:
                item: The number on its label.
            """
            return {"item": item, "price": 10 * item}

        @server.tool(annotations=Annotations(requires_confirmation=True))
        def buy(item: int, api_key: str = "") -> str:
            """Buy an item."""
            self.bought.append(item)
            return f"bought {item}"

        @server.tool(annotations=READS)
        async def wait() -> str:
            """Wait for ever."""
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()
            return ""

        @server.tool(annotations=READS, name="say-it")
        def say(text: str) -> str:
            """Say a text."""
            return text

        @server.tool(annotations=READS)
        def fail() -> str:
            """Fail."""
            raise ValueError("the till is empty")

        @server.tool(annotations=READS)
        async def fail_beside() -> str:
            """Fail, once somebody waits."""
            await self.begun.wait()
            raise ValueError("the till is empty")

        return server

    def agree_to(self, hub: Hub, *items: int) -> None:
        """Have a person who agrees to calls that buy one of these items, and to no other."""

        async def answer(question: Any) -> Any:
            self.asked.append(question)
            wanted = {f"item={item}," for item in items}
            return {one.name: any(f"{one.description},".startswith(text) for text in wanted) for one in question.fields}

        hub.elicitation.register_handler(answer)


@asynccontextmanager
async def shop_hub(home: Path, config: Config | None = None, **programs: Any) -> AsyncGenerator[tuple[Hub, Shop]]:
    """A hub with the shop alone."""
    shop = Shop()
    said = dataclasses.replace(config or Config(), home=home, programs=ProgramsSection(**programs))
    async with open_hub(said) as hub:
        await hub.mount(shop.server)
        yield hub, shop
