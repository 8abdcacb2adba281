"""MiniLM, run by onnxruntime: six layers of a small BERT, which turn the pieces of a text into 384 numbers."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import string
import unicodedata
from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import Any

from trunkline.errors import ConfigError
from trunkline.search.arrays import Floats, np, unit

_PIECES = Path(__file__).with_name("pieces.txt")
"""The vocabulary that the model was made with: that of BERT, lower case (Apache-2.0)."""
_LONGEST_WORD = 100
_MOST_WORDS = 50_000


class MiniLM:
    """The model of an ONNX file; with a `digest`, of no other file."""

    def __init__(self, file: Path, *, digest: str = "", most_pieces: int = 128) -> None:
        onnxruntime: Any = importlib.import_module("onnxruntime")  # it comes without types
        if digest and hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise ConfigError(f"{file} is not the model that it should be.", hint="Install trunkline[semantic] anew.")
        options = onnxruntime.SessionOptions()
        # Somebody waits for a query. Tools, for which nobody does, take only every other moment: see `pause`.
        options.intra_op_num_threads = min(2, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        self._session: Any = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self._pieces = WordPiece.load(_PIECES)
        self._most = most_pieces

    def embed(self, texts: Sequence[str], *, pause: Callable[[], object] = lambda: None) -> Floats:
        """One vector of length 1 for each text; `pause` is called before each, and may wait."""
        means: list[Floats] = []
        for text in texts:
            pause()
            means.append(self._run(self._pieces.encode(text, most=self._most)).mean(axis=0))
        return unit(np.stack(means))

    def embed_parts(self, parts: Sequence[str]) -> Floats:
        """A vector of length 1 for the query that the parts make, then one for each part.

        The whole is read once, without its commonest words, and a part is the mean of its pieces: half the work, and no
        worse.
        """
        pieces: list[int] = []
        spans: list[slice] = []
        for part in parts:
            start = len(pieces)
            pieces += self._pieces.pieces(part, most=self._most, without=_COMMONEST)
            pieces = pieces[: self._most - 2]
            # The marks of start and end are put around them below.
            spans.append(slice(1 + start, 1 + len(pieces)))
        state = self._run(self._pieces.mark(pieces))
        # What lies behind the longest text that can be read counts as the whole.
        means = [state[span if span.start < span.stop else slice(None)].mean(axis=0) for span in spans]
        return unit(np.stack([state.mean(axis=0), *means]))

    def _run(self, pieces: list[int]) -> Floats:
        """What the last layer says of each piece. Texts are run one by one: together they gain nothing on one core."""
        numbers = np.array([pieces], dtype=np.int64)
        given = {
            "input_ids": numbers,
            "attention_mask": np.ones_like(numbers),
            "token_type_ids": np.zeros_like(numbers),
        }
        return self._session.run(None, given)[0][0]


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

_COMMON_WORDS = "a an and are at be by for from i in is it me my of on that the this to with you your"
_COMMONEST = frozenset((*_COMMON_WORDS.split(), *string.punctuation))
"""A third of a usual query, with the signs. Rarer words of this kind, as `before` or `without`, do matter."""
