"""Tools as Python functions: what a program calls them, and the signatures that models read."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from trunkline.model import Entry, Snapshot
from trunkline.tools.names import closest
from trunkline.tools.tokens import estimated
from trunkline.untrusted import as_object
from trunkline.wire.members import decode_bounded

MOST_DEPTH = 4
MOST_MEMBERS = 12
"""Members of an object, and values of a choice, that a signature shows."""
_MOST_ADVICE = 5
"""Unknown names of one program for which others that are like them are looked for."""
_LONGEST_LINE = 160
_LONGEST_WORDS = 400
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict"}


class Functions:
    """The tools of one snapshot by the names that a program calls them by."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._tools = snapshot.tools
        self._advised = 0

    def get(self, name: str) -> Entry | None:
        """The tool that a program means by a name."""
        entry = self._tools.get(name)
        if entry is None or not is_function_name(name):
            entry = self._renamed.get(name)
        return entry if entry is not None and not entry.app_only else None

    def name_of(self, entry: Entry) -> str:
        """What a program calls a tool."""
        if is_function_name(entry.shown):
            return entry.shown
        return next((name for name, one in self._renamed.items() if one.shown == entry.shown), entry.shown)

    def why_unknown(self, name: str) -> str:
        """Why a name is no function; empty when it is one. The first few are told what is spelt alike."""
        if self.get(name) is not None:
            return ""
        close: list[str] = []
        if self._advised < _MOST_ADVICE:  # which compares a name with every tool's
            self._advised += 1
            shown = (entry.shown for entry in self._tools.values() if not entry.app_only)
            close = [function_name(one) for one in closest(name[:80], shown, 3)]
        return f"name {name[:80]!r} is not defined" + (f"; did you mean {', '.join(close)}?" if close else "")

    @cached_property
    def _renamed(self) -> Mapping[str, Entry]:
        """Tools whose shown names are none of Python's."""
        found: dict[str, Entry] = {}
        for shown in sorted(name for name in self._tools if not is_function_name(name)):
            name, turn = function_name(shown), 2
            while name in found or name in self._tools:
                name, turn = f"{function_name(shown)}_{turn}", turn + 1
            found[name] = self._tools[shown]
        return found


def is_function_name(name: str) -> bool:
    """Whether Python takes a name as it is."""
    return name.isidentifier() and not keyword.iskeyword(name)


def function_name(shown: str) -> str:
    """The name of a tool as Python takes it."""
    name = re.sub(r"\W", "_", shown, flags=re.ASCII)
    name = f"_{name}" if name[:1].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) else name


def signature(entry: Entry, name: str) -> str:
    """One line: the function, its arguments with their types, and what it gives."""
    definition = decode_bounded(entry.definition)
    return f"async def {name}({_arguments(definition)}) -> {_given(definition)}"


def stub(entry: Entry, name: str) -> str:
    """A function as a model reads it: its signature, what it does, and what its arguments mean."""
    definition = decode_bounded(entry.definition)
    words = _words(str(definition.get("description") or definition.get("title") or ""), _LONGEST_WORDS)
    lines = [f"async def {name}({_arguments(definition)}) -> {_given(definition)}:", f'    """{words}']
    lines += [f"    {line}" for line in _meanings(definition)]
    return "\n".join(lines) + '"""'


def stubs_within(functions: Sequence[tuple[Entry, str]], budget: int) -> str:
    """Functions as models read them: as much of each as so many tokens allow, the first ones first."""
    told: list[str] = []
    left = budget
    for entry, name in functions:
        text = stub(entry, name)
        if estimated(text.encode()) > left:
            text = f"{signature(entry, name)}: ..."
        if (cost := estimated(text.encode())) > left:
            told.append(f'# Left out: {name}. Search with {{"names": ["{name}"]}}.')
            continue
        left -= cost
        told.append(text)
    return "\n".join(told)


def checked_stub(entry: Entry, name: str) -> str:
    """A function for a type checker, which is stricter than models are."""
    definition = decode_bounded(entry.definition)
    return f"async def {name}({_arguments(definition, checked=True)}) -> Any: ..."


def _arguments(definition: Mapping[str, Any], *, checked: bool = False) -> str:
    schema = as_object(definition.get("inputSchema"))
    types = _Types(schema, inline=not checked)
    needed = schema.get("required")
    required = set(map(str, cast("list[Any]", needed))) if isinstance(needed, list) else set[str]()
    properties = as_object(schema.get("properties"))
    ordered = [*(one for one in properties if one in required), *(one for one in properties if one not in required)]
    shown = [
        f"{name}: {types.of(properties[name])}{'' if name in required else ' = ...'}"
        for name in ordered
        if is_function_name(name)
    ]
    odd = [name for name in ordered if not is_function_name(name)]
    if odd and checked:
        shown.append("**more: Any")
    elif odd:
        shown += ["**{" + ", ".join(f"{_quoted(name)}: {types.of(properties[name])}" for name in odd) + "}"]
    return ", ".join(shown)


def _given(definition: Mapping[str, Any]) -> str:
    schema = as_object(definition.get("outputSchema"))
    return _Types(schema, inline=True).of(schema) if schema else "Any"


def _meanings(definition: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in as_object(as_object(definition.get("inputSchema")).get("properties")).items():
        meaning = as_object(schema).get("description")
        if isinstance(meaning, str) and meaning.strip():
            yield f"{name}: {_words(meaning, _LONGEST_LINE)}"


class _Types:
    """The types of one schema, as Python writes them; what it does not say is `Any`."""

    def __init__(self, root: Mapping[str, Any], *, inline: bool) -> None:
        self._root, self._inline = root, inline

    def of(self, schema: Any, depth: int = 0) -> str:
        found = self._resolved(as_object(schema))
        if depth > MOST_DEPTH or not found:
            return "Any"
        if "const" in found:
            return _literal([found["const"]])
        values = found.get("enum")
        if isinstance(values, list) and values:
            return _literal(cast("list[Any]", values))
        for either in ("anyOf", "oneOf"):
            choices = found.get(either)
            if isinstance(choices, list) and choices:
                return _union(self.of(one, depth + 1) for one in cast("list[Any]", choices)[:MOST_MEMBERS])
        kind = found.get("type")
        if isinstance(kind, list):
            return _union(self._plain({**found, "type": one}, depth) for one in cast("list[Any]", kind)[:MOST_MEMBERS])
        return self._plain(found, depth)

    def _plain(self, schema: Mapping[str, Any], depth: int) -> str:
        kind = schema.get("type")
        if kind == "array":
            inner = self.of(schema.get("items"), depth + 1)
            return f"list[{inner}]" if inner != "Any" else "list"
        properties = as_object(schema.get("properties"))
        if self._inline and properties and kind in ("object", None) and depth < MOST_DEPTH:
            shown = [f"{_quoted(name)}: {self.of(one, depth + 1)}" for name, one in properties.items()]
            more = ["..."] if len(shown) > MOST_MEMBERS else []
            return "{" + ", ".join(shown[:MOST_MEMBERS] + more) + "}"
        return _PLAIN.get(str(kind), "dict" if properties else "Any")

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        for _ in range(MOST_DEPTH):
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#/"):
                return schema
            found: Any = self._root
            for part in reference[2:].split("/"):
                found = as_object(found).get(part.replace("~1", "/").replace("~0", "~"))
            schema = as_object(found)
        return {}


def _union(types: Iterator[str]) -> str:
    found = dict.fromkeys(types)
    return "Any" if "Any" in found else " | ".join(found)


def _literal(values: list[Any]) -> str:
    plain = [one for one in values if isinstance(one, str | int | bool) or one is None]
    if len(plain) < len(values) or len(plain) > MOST_MEMBERS or any(len(str(one)) > 60 for one in plain):
        return "str" if all(isinstance(one, str) for one in values) else "Any"
    return f"Literal[{', '.join(_quoted(one) if isinstance(one, str) else str(one) for one in plain)}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _words(text: str, most: int) -> str:
    """A text in one line, cut at a word, that cannot end a docstring."""
    line = " ".join(text.replace('"""', "'''").replace("\\", "/").split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " ..."
