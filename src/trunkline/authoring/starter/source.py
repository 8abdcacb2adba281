"""The module of a new server, as each template writes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from trunkline.authoring.starter.names import ToolName, words_of

Template = Literal["basic", "http", "agent"]

ARGUMENT: dict[Template, str] = {"basic": "text", "http": "text", "agent": "task"}
"""What the tools of a template take."""
FIRST_TOOL: dict[Template, str] = {"basic": "hello", "http": "hello", "agent": "research"}
"""The tool that is there when none is named."""
TAKEN = (
    *("annotations", "argparse", "os", "server", "main", "Any", "ToolServer", "ExposableAgent"),
    *(
        "expose_agents_as_tools",
        "report_progress",
        "TASK",
        "MOST_STEPS",
        "AGENTS",
        "work",
        "decide",
        "look_up",
        "exposed",
    ),
)
"""Names that the modules themselves use."""


def source(template: Template, name: str, description: str, tools: Sequence[ToolName], *, port: int, token: str) -> str:
    """The module; `token` is the variable that a server over HTTP reads its token from."""
    made = f"server = ToolServer({quoted(name)}, {quoted(description)})"
    if template == "agent":
        return _agent(made, tools)
    functions = "\n\n".join(_function(tool) for tool in tools)
    return _http(made, functions, port, token) if template == "http" else _basic(made, functions)


def quoted(text: str) -> str:
    """A text of one printable line, as Python, TOML and JSON all write it."""
    return json.dumps(text, ensure_ascii=False)


def _basic(made: str, functions: str) -> str:
    return f'''"""The server: a function with @server.tool is a tool.

Its types are what callers may send, its docstring is what they read.
Fill in both, and what it does.
"""

from __future__ import annotations

from trunkline import ToolServer

{made}


{functions}

def main() -> None:
    """Serve whoever started this program, over standard input and output."""
    server.run("stdio")


if __name__ == "__main__":
    main()
'''


def _http(made: str, functions: str, port: int, token: str) -> str:
    return f'''"""The server: a function with @server.tool is a tool.

Its types are what callers may send, its docstring is what they read.
Fill in both, and what it does.
"""

from __future__ import annotations

import argparse
import os

from trunkline import ToolServer

{made}


{functions}

def main() -> None:
    """Serve any number of callers until Ctrl-C."""
    parser = argparse.ArgumentParser(description=server.config.description)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default={port})
    given = parser.parse_args()
    # Beyond this machine, callers must send this token.
    token = os.environ.get("{token}", "")
    server.run("http", host=given.host, port=given.port, token=token)


if __name__ == "__main__":
    main()
'''


def _function(tool: ToolName) -> str:
    decorator = "@server.tool" if tool.function == tool.tool else f"@server.tool(name={quoted(tool.tool)})"
    return f'''{decorator}
def {tool.function}(text: str) -> str:
    """{words_of(tool.tool)}.

    Args:
        text: What it works on.
    """
    return f"{tool.tool}: {{text}}"
'''


def _agent(made: str, tools: Sequence[ToolName]) -> str:
    functions = "\n\n".join(
        f'''async def {tool.function}(given: dict[str, Any]) -> dict[str, Any]:
    """{words_of(tool.tool)}."""
    return work(given["task"])
'''
        for tool in tools
    )
    agents = "\n".join(
        f"""    ExposableAgent(
        id={quoted(tool.tool)},
        name={quoted(tool.tool)},
        description={quoted(words_of(tool.tool) + ".")},
        execute={tool.function},
        input_schema=TASK,
    ),"""
        for tool in tools
    )
    return f'''"""The server: each agent is a tool, and its callers see its steps as progress.

The agents run without a model. Ask yours in `decide`, and let them do something
in `look_up`.
"""

from __future__ import annotations

from typing import Any

from trunkline import (
    ExposableAgent,
    ToolServer,
    expose_agents_as_tools,
    report_progress,
)

{made}

MOST_STEPS = 5
TASK: dict[str, Any] = {{
    "type": "object",
    "properties": {{"task": {{"type": "string", "description": "What is to be done."}}}},
    "required": ["task"],
}}


def decide(task: str, notes: list[str]) -> str:
    """Say what to look up next; nothing when enough is known."""
    words = task.split()
    return words[len(notes)] if len(notes) < len(words) else ""


def look_up(subject: str) -> str:
    """Find something out."""
    return f"{{subject}} has {{len(subject)}} letters."


def work(task: str) -> dict[str, Any]:
    """Decide and look up in turns, until enough is known."""
    notes: list[str] = []
    while len(notes) < MOST_STEPS and (subject := decide(task, notes)):
        report_progress(len(notes), MOST_STEPS, subject)
        notes.append(look_up(subject))
    return {{"answer": " ".join(notes), "steps": len(notes)}}


{functions}

AGENTS = [
{agents}
]
for exposed in expose_agents_as_tools(AGENTS, prefix="", name_transformer=str):
    server.register_tool(exposed.tool)


def main() -> None:
    """Serve whoever started this program, over standard input and output."""
    server.run("stdio")


if __name__ == "__main__":
    main()
'''
