"""Servers and clients that others wrote, and a gateway between them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import mcp
import mcp_types as types
import psutil

from tests.harness import NODE, OLD_PYTHON, ModernCaller, trunkline_up

TOOLS = Path(__file__).parents[2] / ".tools"
PACKAGES = TOOLS / "node_modules" / "@modelcontextprotocol"
INSPECTOR = TOOLS / "node_modules" / ".bin" / "mcp-inspector"
OLD_CLIENT = Path(__file__).with_name("legacy_client.py")

Config = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Running:
    """A gateway with real servers behind it."""

    url: str
    folder: Path
    """Where the servers keep what they are told: `files`, `repository` and `config.json`."""
    process: psutil.Process

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    def configure(self, config: Config) -> None:
        """Replace the configuration, as an editor would."""
        fresh = self.folder / "config.new"
        fresh.write_text(json.dumps(config))
        fresh.replace(self.folder / "config.json")

    def processes(self) -> dict[str, int]:
        """The processes of the servers by the last part of what they run, such as `server-memory`.

        The first of each: a second one may be asked for a while what it offers callers that can be asked.
        """
        found: dict[str, int] = {}
        for child in self.process.children(recursive=True):
            try:
                words = child.cmdline()
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            for word in words:
                name = word.removesuffix("/dist/index.js").rpartition("/")[2]
                if name.startswith(("server-", "mcp-server-")):
                    found.setdefault(name, child.pid)
        return found


def node_server(name: str, *args: str, **env: str) -> dict[str, Any]:
    """The configuration of a server from npm."""
    return {"command": str(NODE), "args": [str(PACKAGES / f"server-{name}" / "dist" / "index.js"), *args], "env": env}


def python_server(name: str, *args: str) -> dict[str, Any]:
    """The configuration of a server from PyPI."""
    return {"command": str(TOOLS / "servers" / "bin" / f"mcp-server-{name}"), "args": list(args)}


def five(folder: Path) -> Config:
    """Five servers of two languages."""
    return {
        "mcpServers": {
            "everything": node_server("everything", "stdio"),
            "filesystem": node_server("filesystem", str(folder / "files")),
            "memory": node_server("memory", MEMORY_FILE_PATH=str(folder / "memory.jsonl")),
            "time": python_server("time", "--local-timezone", "UTC"),
            "git": python_server("git", "--repository", str(folder / "repository")),
        }
    }


@contextmanager
def running(folder: Path, config: Config) -> Generator[Running]:
    """A gateway whose servers are all there."""
    assert (TOOLS / "done").exists(), "run `make .tools/done` first"
    (folder / "files").mkdir()
    make_repository(folder / "repository")
    with trunkline_up(folder, config, "--expose", "all") as (url, process):
        asyncio.run(_all_are_there(url, config["mcpServers"].keys()))
        yield Running(url, folder, psutil.Process(process.pid))


def make_repository(folder: Path) -> None:
    """A repository with one commit, and a file that is not in it."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True, env=env)
    command = ["git", "-C", str(folder), *who, "commit", "--quiet", "--allow-empty", "--message", "The first commit"]
    subprocess.run(command, check=True, env=env)
    (folder / "untracked.txt").write_text("Not yet.")


async def _all_are_there(url: str, servers: Any) -> None:
    async with aiohttp.ClientSession() as http:
        caller = ModernCaller(url, http)

        async def all_listed() -> bool:
            listed = await caller.request("tools/list")
            found = prefixes(listed.result["tools"])
            return bool(found) if len(servers) == 1 else found == set(servers)

        await eventually(all_listed, 30)


def prefixes(tools: list[dict[str, Any]]) -> set[str]:
    """The servers that tools come from."""
    return {tool["name"].partition("__")[0] for tool in tools}


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    """Wait for something that becomes true by itself."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - what is waited for is in another process
            await asyncio.sleep(0.05)


async def text_of(client: mcp.Client, tool: str, arguments: dict[str, Any] | None = None, **rest: Any) -> str:
    """Call a tool; what it says in words."""
    result = await client.call_tool(tool, arguments or {}, **rest)
    assert not result.is_error, result
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def inspect(url: str, era: str, home: Path, *flags: str) -> dict[str, Any]:
    """Ask through the Inspector, a client in TypeScript."""
    command = [str(NODE), str(INSPECTOR), "--cli", url, "--transport", "http", "--protocol-era", era]
    ended = subprocess.run(
        [*command, *flags, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "HOME": str(home)},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)["result"]


def ask_old_client(url: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Do a round of everything with the SDK's client of the 1.x line."""
    command = [OLD_PYTHON, str(OLD_CLIENT), url, json.dumps(calls)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
