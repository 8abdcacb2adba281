"""A notebook: notes are kept in a file, shown as tools, resources and a prompt."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("notes", instructions="Keeps short notes. Ask before you delete one.", version="1.0.0")
READS = ToolAnnotations(read_only_hint=True)


def _file() -> Path:
    return Path(os.environ.get("DEMO_HOME", ".")) / "notes.json"


def _load() -> dict[str, str]:
    try:
        return json.loads(_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"welcome": "Trunkline relays this note to you. Add your own with add_note."}


def _save(notes: dict[str, str]) -> None:
    _file().parent.mkdir(parents=True, exist_ok=True)
    _file().write_text(json.dumps(notes, indent=2, ensure_ascii=False), encoding="utf-8")


@server.tool()
def add_note(title: str, text: str) -> str:
    """Write a note, or replace the one of that title."""
    _save({**_load(), title: text})
    return f"Kept {title!r}."


@server.tool(annotations=READS)
def list_notes() -> list[str]:
    """The titles of all notes."""
    return sorted(_load())


@server.tool(annotations=READS)
def read_note(title: str) -> str:
    """One note's text."""
    notes = _load()
    if title not in notes:
        raise ToolError(f"There is no note {title!r}. There are: {', '.join(sorted(notes))}.")
    return notes[title]


@server.tool(annotations=READS)
def search_notes(words: str) -> dict[str, str]:
    """The notes that contain all of the given words."""
    wanted = words.lower().split()
    return {t: text for t, text in _load().items() if all(word in f"{t} {text}".lower() for word in wanted)}


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def delete_note(title: str) -> str:
    """Throw a note away for good."""
    notes = _load()
    if notes.pop(title, None) is None:
        raise ToolError(f"There is no note {title!r}.")
    _save(notes)
    return f"Deleted {title!r}."


@server.resource("note://{title}")
def note(title: str) -> str:
    """A note as a resource."""
    return read_note(title)


@server.prompt()
def tidy_up() -> str:
    """Ask for the notes to be put in order."""
    return "Read all my notes, and suggest which to merge, rename or delete. Change nothing before I agree."


if __name__ == "__main__":
    server.run("stdio")
