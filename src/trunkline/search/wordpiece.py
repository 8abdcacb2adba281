"""WordPiece: a text cut into the pieces that a BERT model knows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence, Set
from functools import lru_cache
from pathlib import Path

_LONGEST_WORD = 100
_MOST_WORDS = 50_000


class WordPiece:
    """Turns texts into the numbers of their pieces, lower case and without accents."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._start = self._numbers["[CLS]"]
        self._end = self._numbers["[SEP]"]
        self._unknown = self._numbers["[UNK]"]
        self._words: dict[str, list[int]] = {}

    @classmethod
    def load(cls, path: Path) -> WordPiece:
        """The pieces of a `vocab.txt`, one on each line."""
        return cls(path.read_text(encoding="utf-8").splitlines())

    def encode(self, text: str, *, most: int) -> list[int]:
        """The pieces of a text between the marks of its start and end, at most `most` in all."""
        return self.mark(self.pieces(text, most=most - 2))

    def pieces(self, text: str, *, most: int, without: Set[str] = frozenset()) -> list[int]:
        """The first pieces of a text, with some words left out unless it has no others."""
        words = _split(text[: _LONGEST_WORD * most])
        found: list[int] = []
        for word in [word for word in words if word not in without] or words:
            found += self._pieces(word)
            if len(found) >= most:
                break
        return found[:most]

    def mark(self, pieces: Sequence[int]) -> list[int]:
        """The pieces between the marks of a text's start and end."""
        return [self._start, *pieces, self._end]

    def _pieces(self, word: str) -> list[int]:
        found = self._words.get(word)
        if found is None:
            if len(self._words) >= _MOST_WORDS:
                self._words.clear()
            found = self._words[word] = self._cut(word)
        return found

    def _cut(self, word: str) -> list[int]:
        """The longest piece that fits, again and again; a word that cannot be cut is unknown."""
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def _split(text: str) -> list[str]:
    if text.isascii():
        return _WORDS(_CONTROLS("", text).lower())
    kept = "".join(_apart(char) for char in text)
    decomposed = unicodedata.normalize("NFD", kept)
    return _WORDS("".join(char for char in decomposed if unicodedata.category(char) != "Mn").lower())


@lru_cache(maxsize=5_000)
def _apart(char: str) -> str:
    """A character as it counts: controls not at all, punctuation and Chinese characters as words of their own."""
    kind = unicodedata.category(char)[0]
    if kind == "C":
        return char if char in "\t\n\r" else ""
    return f" {char} " if kind == "P" or _CHINESE(char) else char


_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]").sub
_CHINESE = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f]"
).match
_WORDS = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+").findall
"""The signs of ASCII are words of their own, those that are no punctuation to Unicode too."""
