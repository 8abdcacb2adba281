"""`trunkline annotate --infer`: what the words of tools in a file say about how they behave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from trunkline.cli.output import say
from trunkline.errors import ConfigError
from trunkline.tools.annotations import to_mcp
from trunkline.tools.infer import infer


def infer_file(tools: Path, out: Path) -> int:
    """Write one line of inferred hints for each tool in a file; the hints that the file declares are not looked at."""
    definitions = _read(tools)
    lines = [
        json.dumps(
            {
                "server": tool.get("server", ""),
                "name": tool["name"],
                "annotations": to_mcp(infer(tool["name"], tool["description"], tool["inputSchema"]).annotations),
            },
            ensure_ascii=False,
        )
        for tool in definitions
    ]
    try:
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error.strerror}.") from error
    say(f"{len(lines)} tools annotated in {out}.")
    return 0


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", hint="Name a file of tools.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8.") from error
    return [_checked(tool, where) for tool, where in _entries(text, path)]


def _entries(text: str, path: Path) -> list[tuple[Any, str]]:
    """The tools of a list, of a `tools/list` result or of one JSON object in each line, and where each stands."""
    try:
        whole = json.loads(text)
    except ValueError:
        return _entries_by_line(text, path)
    if isinstance(whole, dict):
        whole = cast(dict[str, Any], whole)
        whole = whole.get("result", whole)
    if isinstance(whole, dict):
        whole = cast(dict[str, Any], whole)
        whole = whole.get("tools", [whole])
    if not isinstance(whole, list):
        raise ConfigError(
            f"{path} holds no list of tools.",
            hint='Give it a JSON list, a tools/list result, or one {"name": ...} in each line.',
        )
    return [(tool, f"{path}, tool {count}") for count, tool in enumerate(cast(list[Any], whole), 1)]


def _entries_by_line(text: str, path: Path) -> list[tuple[Any, str]]:
    found: list[tuple[Any, str]] = []
    for count, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append((json.loads(line), f"{path}, line {count}"))
        except ValueError as error:
            raise ConfigError(f"{path}, line {count} is not JSON: {error}.") from error
    return found


def _checked(tool: Any, where: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise ConfigError(f"{where} is not a tool.", hint='A tool is an object with a "name".')
    tool = cast(dict[str, Any], tool)
    name, server = tool.get("name"), tool.get("server", "")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{where} has no name.", hint='Give it a "name" that is a text.')
    if not isinstance(server, str):
        raise ConfigError(f"{where}: the server of {name!r} is not a text.")
    description, schema = tool.get("description") or "", tool.get("inputSchema")
    if not isinstance(description, str):
        raise ConfigError(f"{where}: the description of {name!r} is not a text.")
    if not isinstance(schema, dict | None):
        raise ConfigError(f"{where}: the inputSchema of {name!r} is not an object.")
    return {"server": server, "name": name, "description": description, "inputSchema": schema}
