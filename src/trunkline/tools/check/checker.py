"""Compiles schemas that anybody may have written, and checks arguments against them in bounded time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, cast

import msgspec
from jsonschema_rs import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    RegexOptions,
    ValidationError,
    ValidationErrorKind,
    Validator,
)

from trunkline.errors import ConfigError
from trunkline.tools.check.bounds import MAX_VALUES, relaxed, weigh
from trunkline.tools.patterns import backtracks
from trunkline.untrusted import as_list

MAX_BYTES = 1_000_000
MAX_DEPTH = 100
MAX_TRIALS = 200_000
"""Schemas tried on parts of a value: some 50 ms at the worst."""
MAX_MATCHING = 2_000_000
"""Characters times places in patterns: some 30 ms at the worst. Beyond it, patterns are not matched."""
MAX_PATTERNS = 64
"""Compiling a pattern takes up to a millisecond, however short it is."""
MAX_TOLD = 1_000
"""Trials for which all errors may be collected, at some 50 µs each."""
SHOWN = 5

_PATTERN_BYTES = 2**16
_DIALECTS: dict[str, type[Validator]] = {
    "json-schema.org/draft-04/schema": Draft4Validator,
    "json-schema.org/draft-06/schema": Draft6Validator,
    "json-schema.org/draft-07/schema": Draft7Validator,
    "json-schema.org/draft/2019-09/schema": Draft201909Validator,
    "json-schema.org/draft/2020-12/schema": Draft202012Validator,
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to check."""

    parts: int
    characters: int
    depth: int


class Checker:
    """One schema, ready to check arguments."""

    def __init__(self, schema: dict[str, Any], *, reason: str = "") -> None:
        self.reason = reason
        """Why nothing can be checked, in which case the tool should not be offered; empty when all is well."""
        self._schema = schema
        self._loose: Validator | None = None
        try:
            self._weight = weigh(schema)
            self._strict = self._compiled()
        except ConfigError as error:
            self.reason = error.message

    def missing(self, arguments: Mapping[str, Any]) -> list[str]:
        """Required arguments that are not there."""
        required = self._schema.get("required")
        names = as_list(required)
        return [name for name in names if isinstance(name, str) and name not in arguments]

    def checks(self, arguments: Mapping[str, Any]) -> bool:
        """Whether arguments of this size can be checked in time."""
        if self.reason:
            return False
        most = MAX_TRIALS // self._weight.width
        size = measured(arguments, most)
        return size.depth <= MAX_DEPTH and size.parts <= most

    def problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """What is wrong, by name and rule; empty when the arguments fit. At most five are told."""
        if self.reason:
            return [self.reason]
        most = MAX_TRIALS // self._weight.width
        size = measured(arguments, most)
        if size.depth > MAX_DEPTH:
            return [f"they are nested more than {MAX_DEPTH} levels deep"]
        if size.parts > most:
            return ["they are too many to be checked against its schema"]
        long = size.characters * self._weight.states > MAX_MATCHING
        try:
            validator = self._without_patterns() if long else self._strict
            return [] if validator.is_valid(arguments) else self._told(validator, arguments, size)
        except ValueError:  # what cannot be JSON: a set, bytes, half of a surrogate pair
            return ["they hold something that JSON does not have"]
        except ConfigError:
            return ["they are too long to be matched with its patterns"]

    def _compiled(self) -> Validator:
        if self._weight.patterns > MAX_PATTERNS:
            return self._without_patterns()
        try:
            return _compile(relaxed(self._schema, backtracks) if self._weight.unbounded else self._schema)
        except ValidationError as error:
            if isinstance(error.kind, ValidationErrorKind.Format) and error.kind.format == "regex":
                return self._without_patterns()  # one that our engine does not know, or that grows too large
            raise ConfigError(f"Its schema is not valid: {in_words(error)}.") from None
        except ValueError:
            raise ConfigError("Its schema holds something that JSON does not have.") from None

    def _without_patterns(self) -> Validator:
        if self._loose is None:
            try:
                self._loose = _compile(relaxed(self._schema, lambda _: True))
            except ValueError:
                raise ConfigError("Its schema is not valid, or refers to its own patterns.") from None
        return self._loose

    def _told(self, validator: Validator, arguments: Mapping[str, Any], size: Size) -> list[str]:
        # Collecting errors does not remember what it saw, so it may take exponential time where checking does not.
        branches = self._weight.width * max(1, self._weight.loops) ** min(size.depth, 20)
        if size.parts * branches <= MAX_TOLD:
            told = list(dict.fromkeys(in_words(error) for error in validator.iter_errors(arguments)))
            return told if len(told) <= SHOWN else [*told[:SHOWN], f"and {len(told) - SHOWN} more"]
        if branches <= MAX_TOLD and not self._weight.loops:
            try:
                validator.validate(arguments)
            except ValidationError as error:
                return [in_words(error)]
        missing = [f"{named(name)} is missing" for name in self.missing(arguments)[:SHOWN]]
        return missing or ["something in them does not fit its schema"]


class Checkers:
    """Compiled schemas by their digest, of bounded number and size; the least recently used go first."""

    def __init__(self, *, max_count: int = 1_000, max_bytes: int = 20_000_000) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, tuple[Checker, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, schema: Mapping[str, Any]) -> Checker:
        """The checker for a schema, compiled if it is new."""
        try:
            text = msgspec.json.encode(schema, enc_hook=_plain)
        except (TypeError, ValueError, RecursionError):
            return Checker({}, reason="Its schema is not JSON, or is nested without end.")
        if len(text) > MAX_BYTES or text.count(b"{") > MAX_VALUES:
            return Checker({}, reason=f"Its schema is longer than {MAX_BYTES} bytes, or has too many parts.")
        key = blake2b(text, digest_size=32).digest()
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        self._kept[key] = checker, _ = Checker(msgspec.json.decode(text)), len(text)
        self._bytes += len(text)
        while len(self._kept) > self._max_count or self._bytes > self._max_bytes:
            self._bytes -= self._kept.popitem(last=False)[1][1]
        return checker


_checkers = Checkers()


def checker_for(schema: Mapping[str, Any]) -> Checker:
    """The checker for a schema, shared by all who use the same."""
    return _checkers.find(schema)


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Why a tool with this schema should not be offered; empty when its arguments can be checked."""
    return checker_for(schema).reason


def measured(arguments: Mapping[str, Any], most: int = MAX_TRIALS) -> Size:
    """The size of arguments, or of as much of them as is already too much."""
    parts = characters = depth = 0
    level: list[Any] = [arguments]
    while level and depth <= MAX_DEPTH:
        depth += 1
        parts += len(level)
        if parts > most:
            break
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                characters += len(value)
            elif isinstance(value, dict):
                members = cast("dict[Any, Any]", value)
                below += members.values()
                characters += sum(len(name) for name in members if isinstance(name, str))
            elif isinstance(value, list | tuple):
                below += cast("list[Any]", value)
        level = below
    return Size(parts, characters, depth)


def _compile(schema: dict[str, Any]) -> Validator:
    dialect = schema.get("$schema")
    known = _DIALECTS.get(dialect.partition("://")[2].rstrip("#")) if isinstance(dialect, str) else None
    if known is not None:
        return _validator(known, schema)
    # Without a dialect, or with one that nobody knows, a schema is read as MCP says.
    unnamed = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
    try:
        return _validator(Draft202012Validator, unnamed)
    except ValidationError:
        # Servers from before MCP said so wrote draft 7, often without a word about it.
        with suppress(ValidationError):
            return _validator(Draft7Validator, unnamed)
        raise


def _validator(kind: type[Validator], schema: dict[str, Any]) -> Validator:
    return kind(schema, offline=True, validate_formats=False, pattern_options=RegexOptions(size_limit=_PATTERN_BYTES))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")


LONGEST = 60
_LIMITS = {
    "minimum": "must be at least",
    "maximum": "must be at most",
    "exclusiveMinimum": "must be more than",
    "exclusiveMaximum": "must be less than",
    "multipleOf": "must be a multiple of",
    "minLength": "is shorter than",
    "maxLength": "is longer than",
    "minItems": "has fewer items than",
    "maxItems": "has more items than",
    "minProperties": "has fewer members than",
    "maxProperties": "has more members than",
}
_PLAIN = {
    "anyOf": "fits none of the allowed forms",
    "oneOf": "does not fit exactly one of the allowed forms",
    "not": "has a form that is not allowed",
    "uniqueItems": "has the same item twice",
    "contains": "lacks an item of the required form",
    "propertyNames": "has a member whose name is not allowed",
    "falseSchema": "is not allowed",
}


def in_words(error: ValidationError) -> str:
    """One problem, told by the schema's words and the arguments' names."""
    kind = error.kind
    match kind:
        case ValidationErrorKind.Required(name):
            return f"{_place([*error.instance_path, name])} is missing"
        case ValidationErrorKind.AdditionalProperties(names) | ValidationErrorKind.UnevaluatedProperties(names):
            return f"{_place([*error.instance_path, names[0]])} is not taken" if names else "a member is not taken"
        case ValidationErrorKind.Type(types):
            rule = f"must be of type {' or '.join(sorted(types, key=lambda name: (name == 'null', name)))}"
        case ValidationErrorKind.FalseSchema() if error.schema_path[-1:] == ["additionalProperties"]:
            rule = "has members that are not taken"
        case ValidationErrorKind.Enum(options):
            rule = f"must be one of {_shown(options)}"
        case ValidationErrorKind.Constant(value):
            rule = f"must be {_shown(value)}"
        case ValidationErrorKind.Pattern(pattern):
            rule = f"does not match the pattern {_shown(pattern)}"
        case _:
            rule = _limit(kind)
    return f"{_place(error.instance_path)} {rule}"


def named(name: str) -> str:
    """The name of an argument, so that it fits into a sentence."""
    return repr(name if len(name) <= LONGEST else name[: LONGEST - 1] + "…")


def _limit(kind: ValidationErrorKind) -> str:
    if kind.name in _LIMITS:
        return f"{_LIMITS[kind.name]} {_shown(kind.value)}"
    return _PLAIN.get(kind.name, f"breaks the rule {named(kind.name)}")


def _place(path: Sequence[str | int]) -> str:
    if not path:
        return "the whole"
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return named(shown.removeprefix("."))


def _shown(value: Any) -> str:
    # From the schema, which everybody may read; but somebody else wrote it, and it may be long.
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 2 * LONGEST else text[: 2 * LONGEST - 1] + "…"
