"""Runs an example of the documentation, in the environment of its framework."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.harness import Start

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".tools"
EXAMPLES = ROOT / "docs" / "examples" / "frameworks"
PAGES = ROOT / "docs" / "frameworks"
SHOP = Path(__file__).with_name("shop_server.py")


def servers(folder: Path, start: Start) -> dict[str, Any]:
    """Two servers: the notes of the demo, and a shop."""
    notes = start("-m", "trunkline.demo.notes", env={"DEMO_HOME": str(folder)})
    return {"notes": notes, "shop": start(str(SHOP))}


def write_toml(folder: Path, start: Start) -> None:
    """The file that `open_hub()` takes."""
    lines: list[str] = []
    for name, server in servers(folder, start).items():
        lines += [f"[servers.{name}]", f"command = {json.dumps(server['command'])}", f"args = {server['args']}"]
        lines += [f"env.{key} = {json.dumps(value)}" for key, value in server.get("env", {}).items()]
    (folder / "trunkline.toml").write_text("\n".join(lines))


async def run_example(name: str, question: str, folder: Path, model: str, url: str = "") -> list[str]:
    """The lines that an example prints; it knows of nothing but this model and this gateway."""
    assert (TOOLS / "done").exists(), "run `make .tools/done` first"
    environment = "langchain" if name == "with_langchain" else "frameworks"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT / "src"),
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": model,
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": f"{model}/v1",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "GEMINI_API_KEY": "key",
        "GOOGLE_GEMINI_BASE_URL": model,
        "MCP_URL": url,
    }
    command = [str(TOOLS / environment / "bin" / "python"), str(EXAMPLES / f"{name}.py"), question]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(90):
            printed, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    return printed.decode().splitlines()
