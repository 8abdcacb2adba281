"""A program over tools: many calls, one answer, and a person who is asked once about all that it wants to change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trunkline import Annotations, Config, ProgramError, ToolServer, open_hub

SHOP = ToolServer(id="shop", name="shop")
STOCK = {"pens": 3, "paper": 40, "ink": 0}


@SHOP.tool(annotations=Annotations(read_only_hint=True))
def stock(item: str) -> dict[str, Any]:
    """How many of an item are left."""
    return {"item": item, "left": STOCK[item]}


@SHOP.tool(annotations=Annotations(requires_confirmation=True))
def order(item: str, number: int) -> str:
    """Order more of an item."""
    STOCK[item] += number
    return f"{number} {item} ordered"


RESTOCK = """
import asyncio
found = await asyncio.gather(*[stock(item=name) for name in ("pens", "paper", "ink")])

async def refill(item):
    try:
        return await order(item=item, number=10)
    except PermissionError:
        return f"no {item}"

await asyncio.gather(*[refill(one["item"]) for one in found if one["left"] < 10])
"""


async def person(question: Any) -> dict[str, bool]:
    """Agrees to everything but ink."""
    print(question.message)
    for box in question.fields:
        print(f"  [ ] {box.label}: {box.description}")
    return {box.name: "ink" not in box.description for box in question.fields}


async def main() -> None:
    with TemporaryDirectory() as home:
        async with open_hub(Config(home=Path(home))) as hub:
            await hub.mount(SHOP)
            hub.elicitation.register_handler(person)

            result = await hub.run(RESTOCK)
            print(result.value, f"after {result.calls} calls")

            try:
                await hub.run("left = await stock(item='pens')\nleft.count")
            except ProgramError as error:
                print(error)


asyncio.run(main())
