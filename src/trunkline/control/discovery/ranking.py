"""Ranks the catalogue's tools by how well they do what is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trunkline.control.discovery.facets import Key
from trunkline.control.discovery.tool_info import EnhancedToolInfo
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText
from trunkline.wire.members import decode_object


class Ranking:
    """An index that is built with the first query and then follows what changes."""

    def __init__(self, tools: Mapping[Key, EnhancedToolInfo]) -> None:
        self._tools = tools
        self._finder: Finder | None = None
        self._changed: set[Key] = set()

    def note(self, keys: Iterable[Key]) -> None:
        """These tools came, changed or went."""
        if self._finder is not None:
            self._changed.update(keys)

    def scores(self, query: str, only: Iterable[EnhancedToolInfo] | None) -> dict[Key, float]:
        """The tools that fit, best first, each with how well."""
        if not self._tools:
            return {}
        finder = self._current()
        keys = None if only is None else [_text_key((tool.server_id, tool.name)) for tool in only]
        hits = finder.search(query, limit=len(self._tools), only=keys)
        return {_key(hit.key): hit.score for hit in hits}

    def _current(self) -> Finder:
        if self._finder is None:
            self._finder = Finder(strategy="bm25")
            self._changed.update(self._tools)
        for key in self._changed:
            tool = self._tools.get(key)
            if tool is None:
                self._finder.remove(_text_key(key))
            else:
                self._finder.add(_text(tool))
        self._changed.clear()
        return self._finder


def _text(tool: EnhancedToolInfo) -> ToolText:
    definition = decode_object(tool.definition) | {"name": tool.name, "tags": [*tool.annotations.tags, tool.category]}
    return ToolText.parse(definition, server=tool.server_id, key=_text_key((tool.server_id, tool.name)))


# The length tells where the server's name ends, whatever stands in it.
def _text_key(key: Key) -> str:
    return f"{len(key[0])}/{key[0]}/{key[1]}"


def _key(text: str) -> Key:
    length, _, rest = text.partition("/")
    return rest[: int(length)], rest[int(length) + 1 :]
