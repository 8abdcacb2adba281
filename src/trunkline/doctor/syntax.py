"""Where a file stops being TOML or JSON, and what is likely the matter there."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass

from trunkline.config import jsonc

_SMART = "“”„‟‘’‚‛«»"
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True)
class Break:
    """The place, and the likely cause."""

    line: int
    column: int
    complaint: str
    cause: str = ""


def find_break(text: str, *, toml: bool) -> Break | None:
    """Where the text is broken; `None` when it is not."""
    try:
        if toml:
            tomllib.loads(text)
        else:
            jsonc.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _POSITION.search(str(error))
        line, column = (int(found[1]), int(found[2])) if found and found[1] else _end(text)
        complaint = _POSITION.sub("", str(error)).partition("\n")[0]
        return Break(line, column, complaint, _toml_cause(text, line, complaint))
    except json.JSONDecodeError as error:
        return Break(error.lineno, error.colno, error.msg, _json_cause(text, error))
    except RecursionError:
        return Break(1, 1, "nested too deeply")
    return None


def _end(text: str) -> tuple[int, int]:
    lines = text.split("\n")
    return len(lines), len(lines[-1]) + 1


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _any_cause(text: str, line: str) -> str:
    """What goes wrong in either format."""
    if text.startswith("\ufeff"):
        return "the file begins with a byte order mark: save it as UTF-8 without one"
    if re.search(r"^(?:<{7}|={7}|>{7})(?:\s|$)", text, re.MULTILINE):
        return "a conflict of a merge was left in: remove the lines with <<<<<<<, ======= and >>>>>>>"
    if any(letter in line for letter in _SMART):
        return 'typographic quotes: replace “ and ” by "'
    return ""


def _toml_cause(text: str, number: int, complaint: str) -> str:
    line = _line(text, number)
    if cause := _any_cause(text, line):
        return cause
    if text.lstrip().startswith("{"):
        return "it is JSON: name the file .json, or write it as TOML"
    if "\\" in line and re.search(r"escape|Unescaped|hex value", complaint):
        return "a backslash in a text: write it twice, or put the text in single quotes"
    if re.search(r",\s*}", line):
        return "a trailing comma: remove the comma before }"
    if "Expected '=' after a key" in complaint or "Invalid statement" in complaint:
        if re.match(r"\s*[\w\"'-]+\s*:", line):
            return "a colon: TOML wants `key = value`"
        return "a line that is neither `key = value` nor `[table]`"
    if "twice" in complaint or "overwrite" in complaint or "Cannot" in complaint:
        return "the same key or table is there twice: keep one"
    if "Invalid value" in complaint or "value" in complaint.lower():
        return "a text without quotes, or no value at all"
    if "Unclosed" in complaint or "Unterminated" in complaint or "Illegal character" in complaint:
        return "a quote or a bracket that is not closed"
    if "newline" in complaint.lower():
        return "two things on one line, or a comma that is missing"
    return ""


def _json_cause(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "the file is empty"
    if cause := _any_cause(text, _line(text, error.lineno)):
        return cause
    here = text[error.pos : error.pos + 1]
    if "escape" in error.msg:
        return "a backslash in a text: write it twice"
    if "property name" in error.msg:
        if here == "'":
            return "single quotes: JSON wants double ones"
        if here == ",":
            return "a comma too many"
        return "a key without quotes" if re.match(r"[\w$]", here) else "a comma too many, or a bracket not closed"
    if error.pos >= len(text.rstrip()):
        return "a bracket or a quote that is not closed"
    if "',' delimiter" in error.msg:
        return "a comma is missing before this place"
    if "':' delimiter" in error.msg:
        return "a colon is missing: TOML's = is not JSON" if here == "=" else "a colon is missing"
    if "Unterminated" in error.msg or "control character" in error.msg:
        return "a text whose closing quote is missing"
    if "Extra data" in error.msg:
        return "something stands behind the end"
    if "Expecting value" in error.msg:
        if here == "'":
            return "single quotes: JSON wants double ones"
        if here in ",}]":
            return "a value is missing, or there is a comma too many"
        if re.match(r"\s*\[[\w.\"-]+\]", text) or re.match(r"\s*\w+\s*=", text):
            return "it is TOML: name the file .toml"
        return "a text without quotes: true, false and null are the only bare words"
    return ""
