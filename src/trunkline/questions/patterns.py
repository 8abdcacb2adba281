"""Patterns and formats that come from servers, matched in time that grows with the text and no faster."""

from __future__ import annotations

from functools import lru_cache

from jsonschema_rs import Draft202012Validator, RegexOptions

# The engine is linear in the text, but its factor is the size of the pattern: both are bounded.
PATTERN_LENGTH = 1_000
PATTERN_BYTES = 2**20
TEXT_LENGTH = 100_000


def is_checkable(pattern: str) -> bool:
    """Whether we can match such a pattern: no lookaround, no back references, not too large."""
    return not pattern or _compiled(pattern) is not None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text, as ECMA-262 reads it; what cannot be checked does not."""
    compiled = _compiled(pattern)
    return compiled is not None and _fits(compiled, text)


def has_format(name: str, text: str) -> bool:
    """Whether the text is an email, uri, date or date-time."""
    return _fits(_formatted(name), text)


def _fits(validator: Draft202012Validator, text: str) -> bool:
    if len(text) > TEXT_LENGTH:
        return False
    try:
        return validator.is_valid(text)
    except UnicodeEncodeError:  # lone surrogates
        return False


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Draft202012Validator | None:
    if len(pattern) > PATTERN_LENGTH:
        return None
    try:
        return Draft202012Validator(
            {"type": "string", "pattern": pattern}, pattern_options=RegexOptions(size_limit=PATTERN_BYTES)
        )
    except ValueError:  # no regular expression of this engine, or no text of Unicode
        return None


@lru_cache(maxsize=16)
def _formatted(name: str) -> Draft202012Validator:
    return Draft202012Validator({"type": "string", "format": name}, validate_formats=True)
