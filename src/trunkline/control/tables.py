"""Tables of what many servers offer, by the shown name: joined again after a change at the cost of the change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, ValuesView
from itertools import chain, compress
from operator import is_, is_not
from typing import Any, TypeVar, cast, overload

from trunkline.model import Entry, Kind, Offer

Table = Mapping[str, Entry]
"""Entries by the shown name."""
SMALL = 2_000
"""Tables of fewer entries are copied: that costs little, and a plain `dict` is the quickest to read."""
SHARE = 32
"""When more than one of so many entries differs from those that were joined once, all are joined anew."""
Default = TypeVar("Default")


def differing(before: Mapping[str, object], now: Mapping[str, object]) -> Collection[str]:
    """The names under which something else stands than before, or nothing any more; what did not change is not touched.

    There may be thousands of which one changed, so that no line of Python is run for the others.
    """
    if list(before) == list(now):
        return list(compress(now, map(is_not, before.values(), now.values())))
    return [*(before.keys() - now.keys()), *(name for name, one in now.items() if before.get(name) is not one)]


class Joiner:
    """Joins tables of many offers; one that is like before is not made anew."""

    def __init__(self) -> None:
        self._known: dict[Kind, tuple[Sequence[Table], Table]] = {}
        self._templates: tuple[Table, tuple[Entry, ...]] = {}, ()

    def joined(self, offers: Collection[Offer]) -> dict[str, Any]:
        """Everything of each kind that is offered, as the members of a snapshot."""
        return self.members({kind: self.table(kind, [offer.table(kind) for offer in offers]) for kind in Kind})

    def members(self, tables: Mapping[Kind, Table]) -> dict[str, Any]:
        """Tables as the members of a snapshot."""
        templates = tables.get(Kind.TEMPLATE, {})
        if self._templates[0] is not templates:
            self._templates = templates, tuple(templates.values())
        return {
            "tools": tables.get(Kind.TOOL, {}),
            "prompts": tables.get(Kind.PROMPT, {}),
            "resources": tables.get(Kind.RESOURCE, {}),
            "templates": self._templates[1],
        }

    def table(self, kind: Kind, tables: Sequence[Table]) -> Table:
        """One table of several; of equal names the last one's counts."""
        made = self._changed(kind, tables)
        if made is None:
            made = dict[str, Entry]()
            for table in tables:
                made.update(table)
            if len(made) > SMALL and len(made) == sum(map(len, tables)):
                made = Joined(tables, len(made), made, {})
        self._known[kind] = tables, made
        return made

    def _changed(self, kind: Kind, tables: Sequence[Table]) -> Table | None:
        """What comes of replacing some tables of the last, or none; nothing where all must be joined anew."""
        before, joined = self._known.get(kind, ((), {}))
        if not before or len(before) != len(tables):
            return None
        if all(map(is_, before, tables)):
            return joined
        pairs = list(compress(zip(before, tables, strict=True), map(is_not, before, tables)))
        if isinstance(joined, Joined):
            return joined.changed(pairs, tables)
        if all(_same_names(*pair) for pair in pairs) and len(joined) == sum(map(len, tables)):
            made = dict(joined)  # several times as quick as to join all
            for _, now in pairs:
                made.update(now)
            return made
        return None


class Joined(Mapping[str, Entry]):
    """Many tables in which no name occurs twice, as one: a table of all that was made once, and what differs now."""

    def __init__(
        self, tables: Sequence[Table], length: int, once: dict[str, Entry], since: dict[str, Entry | None]
    ) -> None:
        self._tables, self._length, self._once, self._since = tables, length, once, since

    def changed(self, pairs: Collection[tuple[Table, Table]], tables: Sequence[Table]) -> Joined | None:
        """The same with some tables in the place of others; nothing if that is not to be had cheaply."""
        since = self._since.copy()
        for before, now in pairs:
            for name in before.keys() - now.keys():
                since[name] = None
        for before, now in pairs:
            for name, entry in now.items():
                known = before.get(name)
                if known is entry:
                    continue
                if known is None and (since[name] if name in since else self._once.get(name)) is not None:
                    return None  # another has the name as well
                since[name] = entry
        if len(since) * SHARE >= len(self._once):
            return None
        length = self._length + sum(len(now) - len(before) for before, now in pairs)
        return Joined(tables, length, self._once, since)

    @overload
    def get(self, key: str, /) -> Entry | None: ...
    @overload
    def get(self, key: str, /, default: Entry | Default) -> Entry | Default: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        """What is there by a name."""
        found = self._since[key] if key in self._since else self._once.get(key)
        return default if found is None else found

    def __getitem__(self, name: str) -> Entry:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return self.get(cast("str", name)) is not None

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._tables)

    def __len__(self) -> int:
        return self._length

    def values(self) -> ValuesView[Entry]:
        """All entries, in the order of the tables."""
        return _Values(self, self._tables)


class _Values(ValuesView[Entry]):
    def __init__(self, joined: Joined, tables: Sequence[Table]) -> None:
        super().__init__(joined)
        self._tables = tables

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(table.values() for table in self._tables)


class Layered(Mapping[str, Entry]):
    """A table over another, some of whose entries are hidden; neither is copied."""

    def __init__(self, top: Table, base: Table, hidden: frozenset[str]) -> None:
        self._top, self._base = top, base
        self._hidden = hidden.union(name for name in top if name in base)

    def __getitem__(self, name: str) -> Entry:
        found = self._top.get(name)
        if found is None:
            if name in self._hidden:
                raise KeyError(name)
            found = self._base[name]
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self._top
        yield from (name for name in self._base if name not in self._hidden)

    def __len__(self) -> int:
        return len(self._top) + len(self._base) - len(self._hidden)


def _same_names(one: Table, other: Table) -> bool:
    return len(one) == len(other) and all(map(str.__eq__, one, other))
