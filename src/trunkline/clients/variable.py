"""What stands for something else in a client's configuration, said in the way of `trunkline.toml`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LITERAL = "${TRUNKLINE_LITERAL:-$}"
"""A `$` in `trunkline.toml` that begins no variable of ours: nobody sets this one, so its default counts."""
REFERENCE = re.compile(r"\$\{(?:env|secrets?):[^}]*\}")
"""What stands for a variable in `trunkline.toml`."""


@dataclass(frozen=True)
class Variable:
    """Part of a text that stands for something else, in the words of `trunkline.toml`."""

    text: str


Part = str | Variable


def variable(name: str) -> Variable:
    """An environment variable in `trunkline.toml`."""
    return Variable(f"${{env:{name}}}")


def spelled(text: str) -> str:
    """Any words as the name of an environment variable."""
    name = re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")
    return name if name[:1].isalpha() else f"MCP_{name}".rstrip("_")


@dataclass
class Translator:
    """Translates the texts of one server, and notes what its reader should know."""

    client: str
    home: Path
    folder: Path
    project: bool
    """Whether the file belongs to the folder, so that what it calls its folder is known."""
    notes: list[str] = field(default_factory=list[str])

    def text(self, text: str, *, key: str = "") -> str:
        """One text, perhaps for the environment variable `key`. Raises `ValueError` for what only the client knows."""
        pattern, meaning = _SYNTAX.get(self.client, (None, None))
        if pattern is None or meaning is None:
            return self.joined([text])
        parts: list[Part] = []
        behind = 0
        for found in pattern.finditer(text):
            parts += [text[behind : found.start()], meaning(self, found, key if found[0] == text else "")]
            behind = found.end()
        return self.joined([*parts, text[behind:]])

    def joined(self, parts: Sequence[Part]) -> str:
        """One text of several parts, in which only those that are meant so are variables.

        Whoever writes a client's file must not reach our secrets, not even with a variable put together from pieces.
        """
        made: list[str] = []
        for variables, group in itertools.groupby(parts, lambda part: isinstance(part, Variable)):
            text = "".join(part.text if isinstance(part, Variable) else part for part in group)
            made.append(text if variables else text.replace("${", LITERAL + "{"))
            if not variables and "${" in text:
                self.note("What looks like a variable in it means itself, as it did, and is written so.")
        return "".join(made)

    def note(self, text: str) -> None:
        """Once is enough."""
        if text not in self.notes:
            self.notes.append(text)


Meaning = Callable[[Translator, "re.Match[str]", str], Part]


def _editor(into: Translator, found: re.Match[str], key: str) -> Part:
    """VS Code, and what was made of it."""
    word, _, detail = found[1].partition(":")
    if word == "env" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", detail):
        return variable(detail)
    if word == "input" and into.client.startswith("vscode"):
        name = key if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) else spelled(detail)
        into.note(f"The client asks for {detail!r}; here, set the environment variable {name}.")
        return variable(name)
    if word in ("workspaceFolder", "workspaceFolderBasename", "cwd"):
        if not into.project:
            into.note(f"${{{word}}} is whatever folder is open; here it is {into.folder}.")
        return into.folder.name if word.endswith("Basename") else str(into.folder)
    simple = {"userHome": str(into.home), "/": "/", "pathSeparator": "/"}
    if word in simple:
        return simple[word]
    raise ValueError(f"it uses ${{{found[1]}}}, which only the client knows")


def _shell(into: Translator, found: re.Match[str], key: str) -> Part:
    """Claude Code's way, which is also ours."""
    return Variable(found[0])


def _secrets(into: Translator, found: re.Match[str], key: str) -> Part:
    """Continue's way."""
    into.note(f"The client knows {found[2]!r} as a secret; here, set the environment variable {found[2]}.")
    return variable(found[2])


_EDITOR = re.compile(
    r"\$\{((?:env|input|config|command|file):[^}]+|workspaceFolder(?::[^}]*)?|workspaceFolderBasename"
    r"|cwd|userHome|/|pathSeparator)\}"
)
_SYNTAX: Mapping[str, tuple[re.Pattern[str], Meaning]] = {
    "vscode": (_EDITOR, _editor),
    "vscode-insiders": (_EDITOR, _editor),
    "cursor": (_EDITOR, _editor),
    "windsurf": (re.compile(r"\$\{((?:env|file):[^}]+)\}"), _editor),
    "claude-code": (re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}"), _shell),
    "continue": (re.compile(r"\$\{\{\s*(secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}"), _secrets),
}
