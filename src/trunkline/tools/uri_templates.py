"""Templates of addresses: which addresses fit one, and what their variables are, in time linear in the address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

from trunkline.errors import ConfigError

LONGEST = 2**16
"""Bytes of an address that are looked at; a longer one fits nothing."""

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"([+#./?&]?)([A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*)(\*?)")
_LITERALS = ("#", ".", "/")
_FOREIGN_LENGTH = 2000
_FOREIGN_VARIABLES = 20


@dataclass(frozen=True, slots=True)
class _Part:
    text: bytes = b""
    """What stands here, unless it is a variable."""
    variable: str | None = None
    wide: bool = False
    """Whether the variable may hold slashes."""
    optional: bool = False
    """Whether the variable may be empty."""


def matches(template: str, uri: str) -> bool:
    """Whether an address can have come from a template that anybody may have written; an odd one matches nothing."""
    parts = _foreign(template)
    return parts is not None and _fitted(parts, _encoded(uri)) is not None


@dataclass(frozen=True)
class UriTemplate:
    """A template as RFC 6570 writes it, as far as addresses can be told apart by it.

    `{x}` is one step of a path, `{+x}` any number of them, `{/x}` and `{/x*}` the same with the slash before it, `{#x}`
    a fragment, and `{?x,y}` at the end a query whose parts may be missing.
    """

    text: str
    parts: tuple[_Part, ...] = field(init=False, repr=False, compare=False)
    query: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts, query = _read(self.text)
        object.__setattr__(self, "parts", tuple(parts))
        object.__setattr__(self, "query", tuple(query))

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of all variables."""
        return (*(part.variable for part in self.parts if part.variable), *self.query)

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables of an address, decoded; `None` when it does not fit. Absent parts of the query are left out."""
        path, mark, rest = uri.partition("?") if self.query else (uri, "", "")
        fitted = _fitted(self.parts, _encoded(path))
        asked = _query(rest, self.query) if mark else {}
        if fitted is None or asked is None:
            return None
        found = {
            part.variable: unquote(value.decode(errors="surrogatepass")) for part, value in fitted if part.variable
        }
        narrow = (found[part.variable] for part in self.parts if part.variable and not part.wide)
        return found | asked if all(map(_harmless, narrow)) else None


@lru_cache(maxsize=4096)
def _foreign(template: str) -> tuple[_Part, ...] | None:
    """The parts of a template as widely as it can be meant: its server has the last word on what it reads."""
    if len(template) > _FOREIGN_LENGTH:
        return None
    texts, expressions = _pieces(template)
    if len(expressions) > _FOREIGN_VARIABLES:
        return None
    parts = [_Part(_encoded(texts[0]))]
    for expression, text in zip(expressions, texts[1:], strict=True):
        wide = expression.startswith(tuple("+#?&;")) or expression.endswith("*")
        if expression.startswith(_LITERALS) and not wide:
            parts.append(_Part(_encoded(expression[0])))
        parts += [_Part(variable=expression, wide=wide, optional=wide), _Part(_encoded(text))]
    return tuple(parts)


def _read(template: str) -> tuple[list[_Part], list[str]]:
    """The parts of a template of our own, and the names of its query; ConfigError where two addresses look alike."""
    texts, expressions = _pieces(template)
    if any(mark in text for text in texts for mark in "{}"):
        raise _unclear(template, "its braces do not pair")
    parts = [_Part(_encoded(texts[0]))]
    query: list[str] = []
    for expression, text in zip(expressions, texts[1:], strict=True):
        read = _VARIABLE.fullmatch(expression)
        if read is None or (read[3] and read[1] != "/"):
            raise _unclear(template, f"{{{expression}}} is not understood")
        kind, names = read[1], read[2].split(",")
        if kind in ("?", "&"):
            query += names
        elif query or len(names) > 1:
            raise _unclear(template, f"{{{expression}}} cannot be told from what is around it")
        else:
            if kind in _LITERALS:
                parts.append(_Part(_encoded(kind)))
            if parts[-1].variable:
                raise _unclear(template, f"nothing divides {{{expression}}} from what is before it")
            parts.append(_Part(variable=names[0], wide=kind in ("+", "#") or bool(read[3])))
        if text and query:
            raise _unclear(template, "a query can only be its end")
        if text:
            parts.append(_Part(_encoded(text)))
    names = [part.variable for part in parts if part.variable] + query
    if len(set(names)) < len(names):
        raise _unclear(template, "it names a variable twice")
    return parts, query


def _pieces(template: str) -> tuple[list[str], list[str]]:
    """The texts around the expressions of a template, one more than there are of those; and the expressions."""
    pieces = _EXPRESSION.split(template)
    return pieces[::2], pieces[1::2]


def _fitted(parts: Sequence[_Part], text: bytes) -> list[tuple[_Part, bytes]] | None:
    """What each part stands for, from the last to the first, each variable as short as can be; `None` for no fit."""
    if len(text) > LONGEST or not text.startswith(parts[0].text) or not text.endswith(parts[-1].text):
        return None
    places = _Places(text)
    ends = [1, 1 << len(parts[0].text)]
    for part in parts[1:]:
        ends.append(places.after(part, ends[-1]))
    if not ends[-1] >> len(text) & 1:
        return None
    fitted: list[tuple[_Part, bytes]] = []
    end = len(text)
    for part, before in zip(reversed(parts), reversed(ends[:-1]), strict=True):
        starts = before & (1 << end + part.optional) - 1
        start = end - len(part.text) if part.variable is None else starts.bit_length() - 1
        fitted.append((part, text[start:end]))
        end = start
    return fitted


class _Places:
    """Sets of places in a text, as numbers with a bit for each, so that all ways to read it are followed at once."""

    def __init__(self, text: bytes) -> None:
        self._backwards = text[::-1]
        self._whole = (1 << len(text)) - 1
        self._of_byte: dict[int, int] = {}

    def after(self, part: _Part, before: int) -> int:
        """Where a part can end that begins at one of these places."""
        if part.variable is None:
            for at, byte in enumerate(part.text):
                before &= self._of(byte) >> at
            return before << len(part.text)
        allowed = self._whole if part.wide else self._whole & ~self._of(ord("/"))
        begun = before & allowed
        # An addition carries each beginning through the allowed bytes behind it, to the first that is not.
        held = ((begun + allowed) ^ allowed) & allowed | begun
        return held << 1 | (before if part.optional else 0)

    def _of(self, byte: int) -> int:
        if byte not in self._of_byte:
            self._of_byte[byte] = int(self._backwards.translate(_only(byte)) or b"0", 2)
        return self._of_byte[byte]


@lru_cache(maxsize=256)
def _only(byte: int) -> bytes:
    """A table that makes digits of bytes: 1 of this one, 0 of all others."""
    return bytes(b"01"[other == byte] for other in range(256))


def _query(text: str, names: tuple[str, ...]) -> dict[str, str] | None:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=len(names))
    except ValueError:
        return None
    found: Mapping[str, str] = dict(pairs)
    return dict(found) if len(found) == len(pairs) and found.keys() <= set(names) else None


def _harmless(value: str) -> bool:
    """One step of a path that, put into a path, stays one step of it."""
    return value not in (".", "..") and not any(mark in value for mark in "/\\\0")


def _encoded(text: str) -> bytes:
    # Half a character, which JSON may hold, is one more byte sequence to compare.
    return text.encode(errors="surrogatepass")


def _unclear(template: str, why: str) -> ConfigError:
    return ConfigError(f"The template {template!r} cannot be used: {why}.", hint="Write {name}, {+path} or {?query}.")
