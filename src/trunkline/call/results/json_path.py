"""Which parts of a JSON document are meant: a subset of JSONPath (RFC 9535) that takes linear time."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

from trunkline.call.results.json_text import NOTHING, Steps
from trunkline.errors import InvalidArgumentsError
from trunkline.tools import patterns

MOST_LETTERS = 1_000
MOST_SEGMENTS = 20

Row = Sequence[Any]
"""What stands in an element at the paths that a condition looks at."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What elements must fulfil, and where in them that is seen."""

    paths: tuple[Steps, ...]
    holds: Callable[[Row], bool]


Selector = str | int | slice | Condition | None
"""A name, a place, a range, a condition, or `None` for all."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One step down: to children, or to all that is below."""

    selectors: tuple[Selector, ...]
    below: bool = False


def parse(text: str) -> tuple[Segment, ...]:
    """The steps of a path; raises `InvalidArgumentsError` that says where it stops being one."""
    return _Parser(text).path()


class _Parser:
    """Reads a path from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text.strip(), 0
        self._paths: dict[Steps, int] = {}

    def path(self) -> tuple[Segment, ...]:
        if len(self._text) > MOST_LETTERS:
            raise self._wrong(f"a path has at most {MOST_LETTERS} letters")
        if not self._take("$") and self._text[:1] not in ("", ".", "["):
            self._text = f".{self._text}"  # `items[0]` means `$.items[0]`
        found: list[Segment] = []
        while self._at < len(self._text):
            found.append(self._segment())
        if len(found) > MOST_SEGMENTS:
            raise self._wrong(f"a path has at most {MOST_SEGMENTS} steps")
        if sum(segment.below for segment in found) > 1:
            raise self._wrong("`..` may stand in a path once")
        return tuple(found)

    def _segment(self) -> Segment:
        below = self._take("..")
        if self._take("["):
            return Segment(self._selectors(), below)
        if not below and not self._take("."):
            raise self._wrong("`.name` or `[...]` is expected")
        if self._take("*"):
            return Segment((None,), below)
        return Segment((self._name(),), below)

    def _selectors(self) -> tuple[Selector, ...]:
        found = [self._selector()]
        while self._skip(","):
            found.append(self._selector())
        if not self._skip("]"):
            raise self._wrong("`]` is expected")
        if len(found) > 1 and any(not isinstance(one, str | int) for one in found):
            raise self._wrong("only names and places can be listed with `,`")
        return tuple(found)

    def _selector(self) -> Selector:
        self._blank()
        if self._take("*"):
            return None
        if self._take("?"):
            return self._condition()
        quoted = self._quoted()
        if quoted is not None:
            return quoted
        found = self._match(_RANGE)
        if found is not None and (found[1] or found[2] is not None):
            start, colon, end, step = found[1], found[2], found[3], found[4]
            if colon is None:
                return int(start)
            if step and int(step) <= 0:
                raise self._wrong("the step of a range is at least 1")
            return slice(*(int(part) if part else None for part in (start, end, step)))
        raise self._wrong("a name in quotes, a number, a range, `*` or `?` is expected")

    # Conditions: what they are made of is decided here once, and not for each element.

    def _condition(self) -> Condition:
        self._paths = {}
        holds = self._either()
        if not self._paths:
            raise self._wrong("a condition looks at `@.name`")
        return Condition(tuple(self._paths), holds)

    def _either(self) -> Callable[[Row], bool]:
        found = self._all()
        while self._skip("||"):
            found = _or(found, self._all())
        return found

    def _all(self) -> Callable[[Row], bool]:
        found = self._test()
        while self._skip("&&"):
            found = _and(found, self._test())
        return found

    def _test(self) -> Callable[[Row], bool]:
        self._blank()
        if self._text[self._at : self._at + 2] != "!=" and self._take("!"):
            wanted = self._test()
            return lambda row: not wanted(row)
        if self._take("("):
            inner = self._either()
            if not self._skip(")"):
                raise self._wrong("`)` is expected")
            return inner
        matching = self._match(_MATCHING)
        if matching is not None:
            return self._matches(whole=matching[1] == "match")
        left = self._operand()
        sign = self._match(_SIGN)
        if sign is None:
            return lambda row: left(row) is not NOTHING
        right, compare = self._operand(), _COMPARE[sign[1]]
        return lambda row: compare(left(row), right(row))

    def _matches(self, *, whole: bool) -> Callable[[Row], bool]:
        text = self._operand()
        pattern = self._quoted() if self._skip(",") else None
        if pattern is None or not self._skip(")"):
            raise self._wrong("a pattern in quotes and `)` are expected")
        pattern = f"^(?:{pattern})$" if whole else pattern
        if not patterns.is_checkable(pattern):
            raise self._wrong("the pattern is none that can be matched: no looking around, no references")

        def holds(row: Row) -> bool:
            found = text(row)
            return isinstance(found, str) and patterns.matches(pattern, found)

        return holds

    def _operand(self) -> Callable[[Row], Any]:
        self._blank()
        if self._match(_LENGTH) is not None:
            inner = self._operand()
            if not self._skip(")"):
                raise self._wrong("`)` is expected")
            return lambda row: _length(inner(row))
        if self._take("@"):
            return self._member()
        quoted = self._quoted()
        if quoted is not None:
            return lambda row: quoted
        found = self._match(_LITERAL)
        if found is None:
            raise self._wrong("`@.name`, a text in quotes, a number, true, false or null is expected")
        literal = (
            _WORDS[found[0]] if found[0] in _WORDS else float(found[0]) if _FLOAT.search(found[0]) else int(found[0])
        )
        return lambda row: literal

    def _member(self) -> Callable[[Row], Any]:
        """What stands at `@.name`, `@.name.other`, `@['name'][0]`."""
        steps: list[str | int] = []
        while self._text[self._at : self._at + 1] in (".", "["):
            (step,) = self._segment().selectors
            if not isinstance(step, str | int):
                raise self._wrong("in a condition, `@` leads to one place")
            steps.append(step)
        if not steps or not isinstance(steps[0], str):
            raise self._wrong("in a condition, `@` is followed by a name")
        return itemgetter(self._paths.setdefault(tuple(steps), len(self._paths)))

    # Letters.

    def _name(self) -> str:
        found = self._match(_NAME)
        if found is None:
            raise self._wrong("a name is expected; one with other signs than letters stands in ['quotes']")
        return found[0]

    def _quoted(self) -> str | None:
        self._blank()
        found = self._match(_QUOTED)
        if found is None:
            return None
        return re.sub(r"\\(.)", r"\1", found[0][1:-1])

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _take(self, sign: str) -> bool:
        taken = self._text.startswith(sign, self._at)
        self._at += len(sign) * taken
        return taken

    def _skip(self, sign: str) -> bool:
        self._blank()
        return self._take(sign)

    def _blank(self) -> None:
        self._match(_BLANK)

    def _wrong(self, what: str) -> InvalidArgumentsError:
        seen = self._text[self._at : self._at + 20] or "its end"
        return InvalidArgumentsError(
            f"The path cannot be read at {seen!r} (letter {self._at + 1}): {what}.", hint="Such as $.items[*].name."
        )


_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_BLANK = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[^\W\d][\w-]*")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_RANGE = re.compile(r"\s*(-?\d{1,15})?\s*(?:(:)\s*(-?\d{1,15})?\s*(?::\s*(-?\d{1,15})?)?)?")
_SIGN = re.compile(r"\s*(==|!=|<=|>=|<|>)")
_LITERAL = re.compile(r"true\b|false\b|null\b|-?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?")
_FLOAT = re.compile(r"[.eE]")
_MATCHING = re.compile(r"\s*(match|search)\s*\(")
_LENGTH = re.compile(r"length\s*\(")


def _or(one: Callable[[Row], bool], other: Callable[[Row], bool]) -> Callable[[Row], bool]:
    return lambda row: one(row) or other(row)


def _and(one: Callable[[Row], bool], other: Callable[[Row], bool]) -> Callable[[Row], bool]:
    return lambda row: one(row) and other(row)


def _length(value: Any) -> Any:
    return len(cast("Sequence[Any]", value)) if isinstance(value, str | list | dict) else NOTHING


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Numbers are compared with numbers and texts with texts; anything else is neither more nor less."""

    def holds(left: Any, right: Any) -> bool:
        return (left.__class__, right.__class__) in _COMPARABLE and compare(left, right)

    return holds


_COMPARABLE = frozenset(((int, int), (int, float), (float, int), (float, float), (str, str)))


def _equal(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
}
