"""What a new project has beside its module: how it is built, explained, tested, and kept."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from trunkline.authoring.starter.names import ToolName, words_of
from trunkline.authoring.starter.source import ARGUMENT, Template, quoted

IGNORED = """.venv/
__pycache__/
*.egg-info/
build/
dist/
.pytest_cache/
.ruff_cache/
"""


def pyproject(name: str, module: str, description: str, version: str) -> str:
    """How it is built, what it needs, and which command it brings."""
    return f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = {quoted(name)}
version = "0.1.0"
description = {quoted(description)}
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["trunkline>={version}"]

[project.scripts]
{name} = "{module}:main"

[tool.hatch.build.targets.wheel]
include = ["src/{module}.py"]
sources = ["src"]

[tool.hatch.build]
dev-mode-dirs = ["src"]

[tool.pytest.ini_options]
pythonpath = ["src"]
"""


def tests(module: str, template: Template, tools: Sequence[ToolName]) -> str:
    """A test that calls every tool."""
    calls = "\n".join(f'    {quoted(tool.tool)}: {{"{ARGUMENT[template]}": "hello"}},' for tool in tools)
    return f'''"""Every tool, called as callers do: through a hub, in this process."""

from __future__ import annotations

import asyncio
import tempfile
import unittest
from pathlib import Path

from trunkline import Config, ToolResult, open_hub

from {module} import server

CALLS = {{
{calls}
}}


class ServerTest(unittest.TestCase):
    def test_every_tool_is_called_here(self) -> None:
        self.assertEqual([tool.name for tool in server.get_tools()], list(CALLS))

    def test_every_tool_answers(self) -> None:
        for tool, result in asyncio.run(results()).items():
            with self.subTest(tool):
                self.assertFalse(result.is_error, result.text)
                self.assertIn("hello", result.text)


async def results() -> dict[str, ToolResult]:
    with tempfile.TemporaryDirectory() as home:
        async with open_hub(Config(home=Path(home))) as hub:
            await hub.mount(server)
            return {{tool: await hub.call(tool, given) for tool, given in CALLS.items()}}


if __name__ == "__main__":
    unittest.main()
'''


def readme(
    name: str,
    module: str,
    template: Template,
    description: str,
    tools: Sequence[ToolName],
    *,
    port: int,
    token: str,
    trunkline: str,
) -> str:
    """How to install it, run it, and use it; `trunkline` is where Trunkline comes from, empty for an index."""
    rows = "\n".join(f"| `{tool.tool}` | {words_of(tool.tool)}. |" for tool in tools)
    wanted = f"{trunkline} -e ." if trunkline else "-e ."
    used = _over_http(name, port, token) if template == "http" else _over_stdio(name)
    return f"""# {name}

{description}

| tool | |
|---|---|
{rows}

They are in `src/{module}.py`.

## Install and test it

```sh
python3 -m venv .venv
.venv/bin/python -m pip install {wanted}
.venv/bin/python -m unittest discover tests
```

{used}
```sh
.venv/bin/trunkline exec {name} {tools[0].tool} {ARGUMENT[template]}=hello
```
"""


def installed_from(record: str) -> str:
    """Where a package came from, as pip takes it in a shell; `record` is its direct_url.json, empty for an index."""
    if not record:
        return ""
    found: dict[str, Any] = json.loads(record)
    url = str(found["url"])
    if url.startswith("file:"):
        return shlex.quote(unquote(urlsplit(url).path))
    how = found.get("vcs_info")
    return shlex.quote(f"{how['vcs']}+{url}@{how['commit_id']}" if how else url)


def _over_stdio(name: str) -> str:
    entry = {"mcpServers": {name: {"command": f"/path/to/{name}/.venv/bin/{name}"}}}
    return f"""## Add it to a client

It speaks MCP over standard input and output, so whoever uses it starts it. In the file of Claude Desktop, Cursor or any
other client, with the real path:

```json
{json.dumps(entry, indent=2)}
```

## Add it to Trunkline

In this folder:

```sh
.venv/bin/trunkline add {name} "$PWD/.venv/bin/{name}"
```

Then call a tool:
"""


def _over_http(name: str, port: int, token: str) -> str:
    url = f"http://127.0.0.1:{port}/mcp"
    entry = {"mcpServers": {name: {"type": "http", "url": url}}}
    return f"""## Run it

It serves any number of callers, until Ctrl-C. Give it a terminal of its own:

```console
$ .venv/bin/{name}
{name} listens at {url}
```

`--port` takes another port. With `--host` it listens beyond this machine; then set `{token}`, which callers must
send as `Authorization: Bearer …`.

## Add it to a client

In the file of Cursor, Claude Code or any other client that speaks HTTP:

```json
{json.dumps(entry, indent=2)}
```

## Add it to Trunkline

```sh
.venv/bin/trunkline add {name} {url}
```

Then, while it runs, call a tool:
"""
