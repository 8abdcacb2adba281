"""The stem of an English word, by Porter's rules: `issues` and `issue` are one word."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a lower-case word; words of other scripts and words with digits come back as they are."""
    if len(word) < 3 or not word.isascii() or not word.isalpha():
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _HAS_VOWEL(word[:-1]):
        word = word[:-1] + "i"
    for suffixes in (_DOUBLE, _SINGLE):
        word = _replace(word, suffixes)
    return _tidy(_residue(word))


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        start = word.removesuffix(suffix)
        if start != word and _HAS_VOWEL(start):
            return _mend(start)
    return word


def _mend(start: str) -> str:
    """What is left of `creat-ed`, `plann-ed` and `fil-ed`, made a word again."""
    if start.endswith(("at", "bl", "iz")):
        return start + "e"
    if _DOUBLED(start) and start[-1] not in "lsz":
        return start[:-1]
    return start + "e" if _measure(start) == 1 and _SHORT(start) else start


def _replace(word: str, suffixes: tuple[tuple[str, str], ...]) -> str:
    for suffix, other in suffixes:
        if word.endswith(suffix):
            start = word[: -len(suffix)]
            return start + other if _measure(start) > 0 else word
    return word


def _residue(word: str) -> str:
    for suffix in _RESIDUE:
        if word.endswith(suffix):
            start = word[: -len(suffix)]
            return start if _measure(start) > 1 and (suffix != "ion" or start[-1:] in ("s", "t")) else word
    return word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _SHORT(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _measure(start: str) -> int:
    """How often a vowel is followed by a consonant."""
    return len(_TURNS(start))


_VOWEL = "(?:[aeiou]|(?<=[^aeiou])y)"
_CONSONANT = "(?:[^aeiouy]|(?<![^aeiou])y)"
_HAS_VOWEL = re.compile(_VOWEL).search
_TURNS = re.compile(f"{_VOWEL}(?={_CONSONANT})").findall
_DOUBLED = re.compile(r"([^aeiou])\1$").search
_SHORT = re.compile("[^aeiou][aeiouy][^aeiouwxy]$").search

_DOUBLE = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("abli", "able"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_SINGLE = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_RESIDUE = (
    "ement", "ance", "ence", "able", "ible", "ment", "ent", "ant", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic",
)  # fmt: skip
