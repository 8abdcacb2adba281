"""Names of tools, and which of them a person takes for another server's."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from trunkline.tools.trust.definition import UNSEEN

_PAIRS = (
    "\u0430a \u0435e \u043eo \u0440p \u0441c \u0443y \u0445x \u0456i \u0458j \u0455s \u04bbh \u0501d \u051bq "
    "\u051dw \u0432b \u043ak \u043cm \u043dh \u0442t \u04cfl \u0475v \u03b1a \u03bfo \u03c1p \u03b9i \u03bdv "
    "\u03c5u \u03bak \u03c4t \u03b5e \u03b7n \u03c9w \u03c7x \u03b3y \u0570h \u0578n \u057du \u0585o \u0581g "
    "\u0131i \u0237j \u0251a \u0261g \u026ai \u01c0l \u0269i"
)
"""Letters of other alphabets, each with the Latin one that it looks like."""
_LIKE = str.maketrans({pair[0]: pair[1] for pair in _PAIRS.split()} | {"1": "l", "|": "l", "0": "o"})
_FOREIGN = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")


def plain_name(name: str) -> str:
    """A name without what servers write differently and mean alike: case, dashes, underscores."""
    plain = re.sub(r"[-_. ]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).casefold().strip("_")
    return name if plain == name else plain  # most are so written, and need no copy


def skeleton(plain: str) -> str:
    """What a name looks like: names that a person takes for one have one skeleton."""
    if plain.isascii() and not any(one in plain for one in ("1", "0", "|", "rn", "vv")):
        return plain
    seen = plain if plain.isascii() else UNSEEN.sub("", unicodedata.normalize("NFKC", plain)).casefold()
    seen = "".join(one for one in unicodedata.normalize("NFD", seen) if not unicodedata.combining(one))
    return seen.translate(_LIKE).replace("rn", "m").replace("vv", "w")


def mixes_scripts(name: str) -> bool:
    """Whether one word of a name has letters of two alphabets that look alike."""
    if name.isascii():
        return False
    for word in re.split(r"[\W_\d]+", name):
        scripts = {unicodedata.name(one, "").partition(" ")[0] for one in word}
        if len(scripts.intersection((*_FOREIGN, "LATIN"))) > 1:
            return True
    return False


class Names:
    """Whose names there are, so that one server's tool can be held against those of the others."""

    def __init__(self, shared: Names | None = None) -> None:
        self._shared = shared
        """Of a user's own servers: those of everybody."""
        self._owners: dict[str, str | set[str]] = {}
        """The servers that have a tool of a name, by the name as `plain_name` gives it."""
        self._looks: dict[str, str] = {}
        """A name by its skeleton, where that is another."""
        self._of: dict[str, tuple[str, ...]] = {}

    def put(self, server: str, names: Iterable[str]) -> Iterator[None]:
        """Say what one server has now, a name at each step; who stops midway begins again."""
        before, now = frozenset(self._of.get(server, ())), set[str]()
        for name in names:
            plain = name if name in before else plain_name(name)
            if plain not in before and plain not in now:
                self._add(server, plain)
            now.add(plain)
            yield
        for name in before - now:
            self._drop(server, name)
            yield
        if now:
            self._of[server] = tuple(now)
        else:
            self._of.pop(server, None)

    def remove(self, server: str) -> None:
        """A server is gone, with all that it had."""
        for name in self._of.pop(server, ()):
            self._drop(server, name)

    def has(self, server: str, name: str) -> bool:
        return self._owns(server, plain_name(name))

    def others(self, server: str, plain: str) -> list[str]:
        """Who else has a tool of this name."""
        found = self._owners.get(plain, ())
        own = [one for one in ((found,) if isinstance(found, str) else sorted(found)) if one != server]
        return own + self._shared.others(server, plain) if self._shared is not None else own

    def like(self, server: str, name: str) -> tuple[str, str] | None:
        """The other server's tool, and whose it is, that a name looks like and is not."""
        plain = plain_name(name)
        seen = skeleton(plain)
        for known in (seen, *self._looking(seen)):
            if known != plain and (others := self.others(server, known)) and not self._owns(server, known):
                return known, others[0]
        return None

    def _owns(self, server: str, plain: str) -> bool:
        found = self._owners.get(plain, ())
        return server == found if isinstance(found, str) else server in found

    def _looking(self, seen: str) -> list[str]:
        found = [self._looks[seen]] if seen in self._looks else []
        return found + self._shared._looking(seen) if self._shared is not None else found

    def _add(self, server: str, name: str) -> None:
        found = self._owners.get(name)
        if found is None:
            self._owners[name] = server
        elif isinstance(found, str):
            self._owners[name] = {found, server}
        else:
            found.add(server)
        seen = skeleton(name)
        if seen != name:
            self._looks.setdefault(seen, name)

    def _drop(self, server: str, name: str) -> None:
        found = self._owners.get(name)
        if isinstance(found, set) and len(found) > 1:
            found.discard(server)
        else:
            self._owners.pop(name, None)
            seen = skeleton(name)
            if self._looks.get(seen) == name:
                del self._looks[seen]
