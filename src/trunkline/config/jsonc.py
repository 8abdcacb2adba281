"""JSON as editors keep it, with comments and last commas, read as the plain JSON that it means."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

COMMENT = r"//[^\r\n]*|/\*.*?\*/"
_STRING = r'"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"'
_STRINGS_AND_COMMENTS = re.compile(rf"({_STRING})|{COMMENT}", re.DOTALL)
_STRINGS_AND_LAST_COMMAS = re.compile(rf"({_STRING})|,(?=[ \t\r\n]*[}}\]])", re.DOTALL)


def loads(text: str) -> Any:
    """The value of a text. Raises `json.JSONDecodeError` with its place in the text, or `RecursionError`."""
    plain = without_last_commas(without_comments(text))

    def refuse(word: str) -> NoReturn:
        raise json.JSONDecodeError(f"{word} is no number", plain, plain.find(word))

    return json.loads(plain, parse_constant=refuse)


def without_comments(text: str) -> str:
    """The text with blanks in the place of comments, so that every place stays where it is."""
    return _STRINGS_AND_COMMENTS.sub(lambda found: found[1] or re.sub(r"[^\r\n]", " ", found[0]), text)


def without_last_commas(text: str) -> str:
    """A text without comments, with a blank in the place of each comma behind the last member of something."""

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        before = found.start() - 1
        while before >= 0 and text[before] in " \t\r\n":
            before -= 1
        return "," if before < 0 or text[before] in "{[,:" else " "

    return _STRINGS_AND_LAST_COMMAS.sub(replaced, text)
