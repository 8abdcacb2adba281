"""A new project as data: what was wanted, what it is called, and its files, filled in from the texts beside this."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import Template as Text
from typing import Any, Literal, get_args
from urllib.parse import unquote, urlsplit

from trunkline.authoring.starter.names import ToolName, check_name, module_name, name_tools, words_of
from trunkline.errors import ConfigError
from trunkline.version import __version__

Template = Literal["basic", "http", "agent"]

ARGUMENT: dict[Template, str] = {"basic": "text", "http": "text", "agent": "task"}
"""What the tools of a template take."""
FIRST_TOOL: dict[Template, str] = {"basic": "hello", "http": "hello", "agent": "research"}
"""The tool that is there when none is named."""
TAKEN = (
    *("annotations", "argparse", "os", "server", "main", "Any", "ToolServer", "ExposableAgent"),
    *("expose_agents_as_tools", "report_progress", "TASK", "MOST_STEPS", "AGENTS"),
    *("work", "decide", "look_up", "exposed"),
)
"""Names that the modules themselves use."""

_ELSEWHERE = {
    "python": "Every template is Python here: take basic.",
    "typescript": "Servers are written in Python here: take basic, or http.",
    "javascript": "Servers are written in Python here: take basic, or http.",
}


@dataclass(frozen=True)
class Project:
    """A server to begin with; ConfigError when it cannot be."""

    name: str
    template: Template = "basic"
    tools: tuple[str, ...] = ()
    """Names of its tools as they are wanted; without any it has one to look at."""
    description: str = ""
    port: int = 8000
    """Where one over HTTP listens."""
    trunkline: str = ""
    """Where Trunkline is installed from; empty when from a package index."""

    def __post_init__(self) -> None:
        if self.template not in get_args(Template):
            hint = _ELSEWHERE.get(self.template.lower(), f"Take one of {', '.join(get_args(Template))}.")
            raise ConfigError(f"There is no template {self.template!r}.", hint=hint)
        check_name(self.name)
        if not 0 < self.port < 65536:
            raise ConfigError(f"There is no port {self.port}.", hint="Take one from 1024 to 65535.")
        line = "".join(letter if letter.isprintable() else " " for letter in self.description)
        object.__setattr__(self, "description", " ".join(line.split()) or f"The server {self.name}.")
        assert self.tool_names, "a project has a tool"

    @cached_property
    def tool_names(self) -> tuple[ToolName, ...]:
        """What its tools and their functions are called."""
        return name_tools(self.tools or (FIRST_TOOL[self.template],), taken=TAKEN)

    @property
    def module(self) -> str:
        """Its Python module."""
        return module_name(self.name)

    @property
    def url(self) -> str:
        """Where it listens; empty when it is started by whoever uses it."""
        return f"http://127.0.0.1:{self.port}/mcp" if self.template == "http" else ""

    @property
    def call(self) -> tuple[str, str]:
        """A tool, and an argument to call it with, such as `text=hello`."""
        return self.tool_names[0].tool, f"{ARGUMENT[self.template]}=hello"

    def files(self) -> dict[str, str]:
        """Its files by their paths in the project."""
        words = self._words()
        words["usage"] = _filled("readme_http" if self.template == "http" else "readme_stdio", words)
        return {
            "pyproject.toml": _filled("pyproject", words),
            "README.md": _filled("readme", words),
            ".gitignore": _filled("gitignore", words),
            f"src/{self.module}.py": _filled(self.template, words),
            "tests/test_server.py": _filled("tests", words),
        }

    def _words(self) -> dict[str, str]:
        tools, argument = self.tool_names, ARGUMENT[self.template]
        function = _agent_function if self.template == "agent" else _tool_function
        return {
            "name": self.name,
            "quoted_name": _quoted(self.name),
            "module": self.module,
            "description": self.description,
            "quoted_description": _quoted(self.description),
            "version": __version__,
            "packages": f"{self.trunkline} -e ." if self.trunkline else "-e .",
            "port": str(self.port),
            "url": self.url,
            "token": f"{self.module.upper()}_TOKEN",
            "tool": tools[0].tool,
            "argument": argument,
            "rows": "\n".join(f"| `{tool.tool}` | {words_of(tool.tool)}. |" for tool in tools),
            "calls": "\n".join(f'    {_quoted(tool.tool)}: {{"{argument}": "hello"}},' for tool in tools),
            "functions": "\n\n".join(function(tool) for tool in tools),
            "agents": "\n".join(_agent(tool) for tool in tools),
        }


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


def _filled(name: str, words: dict[str, str]) -> str:
    return Text(Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8")).substitute(words)


def _quoted(text: str) -> str:
    """A text of one printable line, as Python, TOML and JSON all write it."""
    return json.dumps(text, ensure_ascii=False)


def _tool_function(tool: ToolName) -> str:
    decorator = "@server.tool" if tool.function == tool.tool else f"@server.tool(name={_quoted(tool.tool)})"
    return f'''{decorator}
def {tool.function}(text: str) -> str:
    """{words_of(tool.tool)}.

    Args:
        text: What it works on.
    """
    return f"{tool.tool}: {{text}}"
'''


def _agent_function(tool: ToolName) -> str:
    return f'''async def {tool.function}(given: dict[str, Any]) -> dict[str, Any]:
    """{words_of(tool.tool)}."""
    return work(given["task"])
'''


def _agent(tool: ToolName) -> str:
    return f"""    ExposableAgent(
        id={_quoted(tool.tool)},
        name={_quoted(tool.tool)},
        description={_quoted(words_of(tool.tool) + ".")},
        execute={tool.function},
        input_schema=TASK,
    ),"""
