"""Views of the catalogue: what callers of the gateway and of a profile are shown."""

import asyncio
import sys
import tempfile
from pathlib import Path

from trunkline import Config, GatewayConfig, ProfileSpec, ServerSpec, open_hub


async def main() -> None:
    folder = tempfile.mkdtemp()
    notes = ServerSpec("notes", command=sys.executable, args=("-m", "trunkline.demo.notes"), env={"DEMO_HOME": folder})
    clock = ServerSpec("clock", command=sys.executable, args=("-m", "trunkline.demo.clock"))
    config = Config(
        gateway=GatewayConfig(expose="search", pinned=("notes__list_*",)),
        servers={"notes": notes, "clock": clock},
        profiles={"reading": ProfileSpec("reading", expose="all", servers=("notes",), hidden=("*delete*", "*add*"))},
        home=Path(folder) / "home",
    )
    async with open_hub(config) as hub:
        await hub.ready(30)
        print("/mcp lists", ", ".join(tool.shown for tool in hub.view().tools))
        print("/mcp/reading lists", ", ".join(tool.shown for tool in hub.view("reading").tools))
        for found in await hub.find("what time is it in Oslo", limit=1):
            print(f"found {found.tool.shown} ({found.score:.2f})")
        print("found for reading:", [found.tool.shown for found in await hub.find("delete a note", profile="reading")])


asyncio.run(main())
