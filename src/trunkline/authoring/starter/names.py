"""The names in a new project: which a server may have, and how a tool's becomes a function's."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trunkline.errors import ConfigError
from trunkline.tools.names import PORTABLE, sanitize_tool_name

_LONGEST = 64
_RULE = "A name has letters, digits and single dashes or underscores between them, and begins with a letter."
_TOOL_RULE = f"not every client takes more than {PORTABLE.longest} letters, digits, dashes and underscores."
_FOLDERS = {"src", "test", "tests", "build", "dist"}
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
# Installed as a command, these would take the place of one that the environment itself needs.
_COMMANDS = re.compile(r"(python|pip|uv|uvx|activate|deactivate)\d*")


@dataclass(frozen=True, slots=True)
class ToolName:
    """What was wanted, what the tool is called, and what its function is."""

    wanted: str
    tool: str
    function: str

    @property
    def change(self) -> str:
        """What became of it, in a sentence; empty when nothing did."""
        if self.tool != self.wanted:
            called = "" if self.function == self.tool else f", and its function {self.function}"
            return f"Tool {self.wanted!r} is called {self.tool}{called}: {_TOOL_RULE}"
        if self.function != self.tool:
            return f"The function of tool {self.tool!r} is called {self.function}."
        return ""


def check_name(name: str) -> None:
    """ConfigError unless a server, its folder, its package and its command can all have this name."""
    if "/" in name or "\\" in name:
        raise ConfigError(
            f"A server cannot be called {name!r}: that is a path.", hint="Say where it shall be with --output."
        )
    if len(name) > _LONGEST or not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*", name):
        plain = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:_LONGEST].strip("-")
        raise ConfigError(
            f"A server cannot be called {name!r}.", hint=f"{_RULE} {plain!r} would do." if plain else _RULE
        )
    if why := _reserved(name.lower(), module_name(name)):
        raise ConfigError(f"A server cannot be called {name!r}: {why}.", hint=f"'{name}-server' would do.")


def module_name(name: str) -> str:
    """The Python module of a server."""
    return name.lower().replace("-", "_")


def name_tools(wanted: Iterable[str], *, taken: Sequence[str] = ()) -> tuple[ToolName, ...]:
    """Names for tools that every client takes, and for functions that Python takes; each once.

    Functions are not called like anything in `taken`. ConfigError when two tools would have one name.
    """
    found: dict[str, ToolName] = {}
    functions = {*taken, *dir(builtins), *keyword.kwlist, *keyword.softkwlist}
    for name in dict.fromkeys(wanted):
        tool = sanitize_tool_name(name, rule=PORTABLE)
        if tool in found:
            raise ConfigError(
                f"Tools {found[tool].wanted!r} and {name!r} would both be called {tool!r}.", hint="Rename one of them."
            )
        function = _free(tool.replace("-", "_"), functions)
        functions.add(function)
        found[tool] = ToolName(name, tool, function)
    return tuple(found.values())


def words_of(name: str) -> str:
    """A name as the beginning of a sentence: `readData` and `read_data` are `Read data`."""
    parted = re.sub("(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return " ".join(re.split("[-_ ]+", parted)).strip().capitalize() or name


def _reserved(name: str, module: str) -> str:
    if keyword.iskeyword(module) or keyword.issoftkeyword(module):
        return "that is a word of Python's own"
    if module in sys.stdlib_module_names:
        return f"Python has a module {module} of its own"
    if module in ("trunkline", "mcp"):
        return f"the server needs the package {module} itself"
    if name in _DEVICES or name in _FOLDERS:
        return "a folder of that name means something else"
    if _COMMANDS.fullmatch(name):
        return "its command would replace another"
    return ""


def _free(name: str, taken: set[str]) -> str:
    """A name that hides nothing: not what the module says of itself, nor what it uses."""
    plain = (name.strip("_") or "tool") if name.startswith("__") else name
    if plain[:1].isdigit():
        plain = f"_{plain}"
    if plain in taken:
        plain = f"{plain}_"
    number, free = 2, plain
    while free in taken:
        free, number = f"{plain.rstrip('_')}_{number}", number + 1
    return free
