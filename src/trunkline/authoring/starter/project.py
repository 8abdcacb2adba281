"""A new project as data: what was wanted, what it is called, and its files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import get_args

from trunkline.authoring.starter import files
from trunkline.authoring.starter.names import ToolName, check_name, module_name, name_tools
from trunkline.authoring.starter.source import ARGUMENT, FIRST_TOOL, TAKEN, Template, source
from trunkline.errors import ConfigError
from trunkline.version import __version__

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
        name, module, template, tools = self.name, self.module, self.template, self.tool_names
        token = f"{module.upper()}_TOKEN"
        return {
            "pyproject.toml": files.pyproject(name, module, self.description, __version__),
            "README.md": files.readme(
                name,
                module,
                template,
                self.description,
                tools,
                port=self.port,
                token=token,
                trunkline=self.trunkline,
            ),
            ".gitignore": files.IGNORED,
            f"src/{module}.py": source(template, name, self.description, tools, port=self.port, token=token),
            "tests/test_server.py": files.tests(module, template, tools),
        }
