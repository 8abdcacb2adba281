"""Servers that can be installed: searched, browsed, extended, and made ready for a hub; nobody is asked."""

from __future__ import annotations

import asyncio

from trunkline import MCPRegistryClient, RegistryEntry, get_well_known_server


async def main() -> None:
    client = MCPRegistryClient(registries=())  # without any, it knows the well-known servers

    print("Servers for databases that we have tried:")
    found = await client.search(query="sql database", verified_only=True, limit=3)
    for entry in found.entries:
        print(f"  {entry.name}: {client.get_install_command(entry)}")
        ready, missing = client.check_required_env_vars(entry)
        if not ready:
            print(f"    set first: {', '.join(missing)}")
    print(f"  {found.total_count} in all; more: {found.has_more}")

    print("By the name of a tool:")
    by_tool = await client.search(query="convert_time")
    print(f"  {by_tool.entries[0].id}: {', '.join(by_tool.entries[0].tools)}")

    print("An entry of our own:")
    client.on("entry_added", lambda event: print(f"  added {event.entry.id}"))
    client.add_custom_entry(
        RegistryEntry(
            "my-internal-server",
            "Internal Data Server",
            "Company internal data API",
            version="3.0.0",
            command="node",
            args=["./servers/data-server.js"],
            categories=["data", "internal"],
        )
    )
    print(f"  categories now: {len(await client.get_categories())}")

    print("As a server of a hub:")
    filesystem = get_well_known_server("filesystem")
    assert filesystem is not None
    spec = client.to_server_spec(filesystem, {"directory": ["/srv/docs"]}, name="docs")
    print(f"  {spec.name}: {spec.command} {' '.join(spec.args)}")


if __name__ == "__main__":
    asyncio.run(main())
