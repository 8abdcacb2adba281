"""Two users of one hub under ART's names: servers of their own, threads, and tools found for a prompt."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from trunkline import Annotations, Config, GatewayConfig, McpConnection, McpManagerV2, McpServerConfig, Tool, open_hub
from trunkline.authoring.server import MCPServerBase
from trunkline.gateway.serve import open_gateway


def server(id: str, *tools: Tool) -> MCPServerBase:
    """Stands for a server somewhere else."""
    made = MCPServerBase(id=id, name=id)
    made.register_tools(tools)
    return made


GITHUB = server(
    "github",
    Tool(
        "createPullRequest",
        "Create a new pull request on GitHub",
        annotations=Annotations(tags=("git", "pr")),
        meta={"when_to_use": "When the user wants a PR after code changes"},
        execute=lambda arguments: f"opened {arguments['title']!r}",
    ),
    Tool("listIssues", "List the issues of a repository", execute=lambda _: "none"),
)
LINEAR = server("linear", Tool("addComment", "Comment on a ticket", execute=lambda _: "said"))


async def main() -> None:
    with TemporaryDirectory() as folder:
        far = Config(home=Path(folder, "far"), gateway=GatewayConfig(port=0))
        async with open_gateway(far) as somewhere, open_hub(Config(home=Path(folder, "home"))) as hub:
            await somewhere.hub.mount(GITHUB)
            await hub.mount(LINEAR)  # everybody's
            async with McpManagerV2(hub, user_id="ana") as ana, McpManagerV2(hub, user_id="bob") as bob:
                ana.registry.on("tool_loaded", lambda event: print(f"  loaded {event.tool_key} for {event.user_id}"))

                print("Ana registers a server of her own:")
                await ana.register_server(
                    McpServerConfig("github", McpConnection(somewhere.url), display_name="GitHub", tags=("code",))
                )
                print("  bob has", [tool.name for tool in await bob.get_thread_tools("t")])

                print("A thread has what its user has, until it is told otherwise:")
                await ana.set_thread_servers("chores", ["linear"])
                for thread in ("new", "chores"):
                    print(f"  {thread}:", [tool.name for tool in await ana.get_thread_tools(thread)])

                print("A prompt gets the tools that it needs:")
                tools = await ana.resolve_tools_for_prompt("Create a PR to fix the bug", "new", max_results=3)
                result = await tools[0].execute({"title": "Fix bug"})
                print(f"  {tools[0].name}: {result.text}")
                print("  when to use it:", tools[0].schema["when_to_use"])


if __name__ == "__main__":
    asyncio.run(main())
