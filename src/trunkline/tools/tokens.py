"""How much of a model's context a text takes: counted with a tokenizer, or told from its letters without one."""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import warnings
from collections.abc import Callable
from functools import lru_cache

from trunkline.errors import ConfigError

ENCODING = "o200k_base"
"""The tokenizer that both ways are about: that of OpenAI's models since GPT-4o. Those of other vendors differ."""
HINT = "Install it: pip install 'trunkline[tokens]'."


def estimated(text: str | bytes) -> int:
    """About how many tokens a text has; for JSON rather a few too many than too few."""
    text = _text(text)
    pieces = sum(len(_PIECES(block)) for block in _blocks(text))
    if text.isascii():
        return pieces
    return pieces + math.ceil(_PER_SIGN * sum(len(_SIGNS(block)) for block in _blocks(text)))


def estimated_roughly(text: bytes) -> int:
    """The same of a long text, told from a few parts of it: the rest is not looked at."""
    if len(text) <= _PARTS * _PART:
        return estimated(text)
    step = (len(text) - _PART) // (_PARTS - 1)
    parts = sum(estimated(text[at : at + _PART]) for at in range(0, step * _PARTS, step))
    return round(parts * len(text) / (_PARTS * _PART))


_PARTS, _PART = 8, 1024


def counted(text: str | bytes) -> int:
    """How many tokens a text has; it needs the extra `tokens`, and 140 MB of memory from the first time on."""
    encode = _encoder()
    return sum(len(encode(block)) for block in _blocks(_text(text)))


def can_count() -> bool:
    """Whether the tokenizer is installed; it is not loaded for that."""
    return importlib.util.find_spec("bpe_openai") is not None


# A tokenizer first cuts a text at the borders of words, then looks each piece up; nearly every piece that is cut here
# is one token to it. Words that programs join with _ and words in capitals are rarer, so that they fall into more.
_PUNCTUATION = r"!-/:-@\[-`{-~"
_ACCENTED = "\u00c0-\u024f\u1e00-\u1eff"
_LETTERS = "\u0370-\u1dff"  # Greek, Cyrillic, Arabic, the scripts of India and so on
_SYLLABLES = "\uac00-\ud7af"  # Korean
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_PIECES: Callable[[str], list[str]] = re.compile(
    r'":[{\[]"|\.","'  # joints of JSON that are so common that they are one token
    r"| ?[A-Z]?[a-z]{1,11}"
    r"|_[A-Za-z]{1,5}"
    r"| ?[A-Z]{1,2}"
    r"|[0-9]{1,3}"
    rf"| ?[{_PUNCTUATION}]{{1,3}}"
    rf"| ?[{_ACCENTED}]+[a-z]{{0,2}}"
    rf"| ?[{_LETTERS}]{{1,3}}"
    rf"| ?[{_SYLLABLES}]{{1,2}}"
    rf"| ?[^\s\x00-\x7f{_CJK}]"
    r"|\s+"
).findall
# Ideographs go together by chance, so they are counted apart; an emoji is a piece, and often more than one token.
_SIGNS: Callable[[str], list[str]] = re.compile(f"[{_CJK}\U00010000-\U0010ffff]").findall
_PER_SIGN = 0.7
# The tokenizer refuses a million letters, or 200,000 tokens, at once.
_BLOCK = 100_000


def _blocks(text: str) -> list[str]:
    return [text[at : at + _BLOCK] for at in range(0, len(text), _BLOCK)]


def _text(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _encoder() -> Callable[[str], list[int]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its tables in an old way
        try:
            tokenizer = importlib.import_module("bpe_openai")
        except ImportError as error:
            raise ConfigError("There is no tokenizer to count with.", hint=HINT) from error
        return tokenizer.get_encoding(ENCODING).encode_ordinary
