"""Text as terms: identifiers split, words stemmed, scripts without spaces cut into pairs."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from sys import intern


def terms(text: str) -> list[str]:
    """The terms of a text, in its order, with repetitions; stop words included."""
    found: list[str] = []
    for word in _WORDS(_plain(text)):
        found += _stems(word)
    return found


def spellings(text: str) -> list[tuple[str, str]]:
    """The terms of a text, each with the word it was made of."""
    return [(stem(piece), piece) for word in _WORDS(_plain(text)) for piece in _pieces(word)]


def telling(name: str) -> tuple[str, ...]:
    """The terms of a name that tell it apart, each once."""
    return tuple(term for term in dict.fromkeys(terms(name)) if not is_stop(term))


def is_stop(term: str) -> bool:
    """Whether a term only holds a sentence together."""
    return term in _STOP


def is_filler(term: str) -> bool:
    """Whether a term says little about the tool that is wanted: a number, a courtesy."""
    return term in _FILLER or term.isdigit()


def is_telling(term: str) -> bool:
    """Whether a term may tell one tool from another."""
    return not (is_stop(term) or is_filler(term))


def bare(name: str) -> str:
    """A name without case and signs: `createPullRequest` and `Create pull-request` are one."""
    return _SIGNS("", _plain(name)).casefold()


def slips(term: str) -> set[str]:
    """What a mistyped word may have been meant for: a letter is missing, too many, swapped or wrong, not the first."""
    found: set[str] = set()
    for at in range(1, len(term) + 1):
        start, end = term[:at], term[at:]
        found |= {start + end[1:], start + end[1:2] + end[:1] + end[2:]}
        for letter in _LETTERS:
            found |= {start + letter + end, start + letter + end[1:]}
    return found


@lru_cache(maxsize=50_000)
def _stems(word: str) -> tuple[str, ...]:
    return tuple(intern(stem(piece)) for piece in _pieces(word))


def _pieces(word: str) -> list[str]:
    if _UNSPACED(word):
        return _pairs(word)
    pieces = [piece.casefold() for piece in _PIECES(word)]
    # `GitHub`, `e-mail` and `base64` are also written as one word.
    if len(pieces) in (2, 3) and len(word) <= _LONGEST_COMPOUND and not _SNAKE(word):
        pieces.append("".join(pieces))
    return pieces


def _pairs(run: str) -> list[str]:
    """Chinese, Japanese and Thai put no spaces between words: two characters stand for a word."""
    found: list[str] = []
    for piece in _SCRIPTS(run):
        if not _UNSPACED(piece):
            found += _pieces(piece)
        elif len(piece) == 1:
            found.append(piece)
        else:
            found += [piece[at : at + 2] for at in range(len(piece) - 1)]
    return found


def _plain(text: str) -> str:
    """Full-width letters made narrow, and accents taken off: who types `resume` finds `résumé`."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", _ACCENTS("", decomposed))


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a lower-case word, by Porter's rules: `issues` and `issue` are one.

    Words of other scripts and words with digits come back as they are.
    """
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

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LONGEST_COMPOUND = 16
_WORDS = re.compile(r"\w+(?:-\w+)*").findall
_SIGNS = re.compile(r"[\W_]+").sub
_SNAKE = re.compile(r"_|-.*-").search
_PIECES = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+").findall
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002ffff"
_UNSPACED = re.compile(f"[{_NO_SPACES}]").search
_SCRIPTS = re.compile(f"[{_NO_SPACES}]+|[^{_NO_SPACES}]+").findall
_ACCENTS = re.compile("[\u0300-\u036f]").sub

# Verbs are not among them: `get`, `find` and `do` tell tools apart.
_STOP_WORDS = """
    a about after all also an and any are as at be because been before being both but by can could did does each few
    for from had has have having he her here hers him his how i if in into is it its itself just me more most my
    no nor not of off on once only or other our out over own per same she should so some such than that the their
    them then there these they this those through to too under until up us very was we were what when where which while
    who whom why will with would you your yours am s t re ve ll d m via within without using
"""
_COURTESIES = """
    please help want need like know tell give thanks thank kindly hello hi hey let may might must shall wish
    looking trying able assist assistance interested used use provide
"""
_STOP = frozenset(map(stem, _STOP_WORDS.split()))
_FILLER = frozenset(map(stem, _COURTESIES.split()))
