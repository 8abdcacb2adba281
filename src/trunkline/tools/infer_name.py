"""What a tool's name says it does: which of its words is the verb, and how sure that is."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from trunkline.tools.verbs import BASE, PAIRS, READS, RUNS, THIRD, UNCLEAR, VERBS, Effect, Verb
from trunkline.tools.verbs import words as word_set

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_JOINS = frozenset(("and", "or", "then"))
_SPECIAL = _JOINS | {second for _, second in PAIRS}
_CLOSING_READS = frozenset(("describe", "fetch", "find", "get", "read", "retrieve"))
_OBJECTS = word_set(
    "account app branch bucket collection column container data database directory doc document entry event file "
    "folder group index issue item job key message node note object order page permission pod policy project record "
    "report repo repository resource role row rule schema script secret server service session table tag task team "
    "template token topic user value version view webhook workflow workspace"
)


class NameSign(NamedTuple):
    """What the name says, by which word."""

    effect: Effect | None = None
    word: str = ""
    lemma: str = ""
    sure: bool = False
    """The word is a verb there, not one that may be a noun."""
    words: tuple[str, ...] = ()


_Picked = tuple[Effect | None, str, str, bool]
_NOTHING: _Picked = (None, "", "", False)


def read_name(name: str) -> NameSign:
    """Find the verb: it leads (`delete_user`), ends (`registry_list`) or follows a prefix (`ha_get_state`)."""
    words = split_name(name)
    if not words:
        return NameSign()
    verbs = [_verb(words, place, word) for place, word in enumerate(words)]
    effect, word, lemma, sure = _pick(words, verbs)
    if not _SPECIAL.isdisjoint(words):
        for place, second in enumerate(words[1:], 1):
            first = words[place - 1]
            verb = verbs[place]
            paired = PAIRS.get((first, second))
            if paired is not None and paired > (effect or READS):
                effect, word, lemma, sure = paired, f"{first} {second}", second, True
            # `get_or_create`, `search_and_replace`: the one to fear counts.
            elif verb and first in _JOINS and effect is not None and verb.effect > effect:
                effect, word, lemma, sure = verb.effect, second, verb.lemma, True
        # `look_and_burn`: what joins a leading verb is a verb too, and one that is unknown may do anything.
        if effect is READS and len(words) > 2 and words[1] in _JOINS and verbs[0] and verbs[2] is None:
            effect, word, lemma, sure = RUNS, words[2], words[2], True
    return NameSign(effect, word, lemma, sure, tuple(words))


def split_name(name: str) -> list[str]:
    """The words of a name, in small letters: of `getHTTPUrl`, `delete_user`, `read-file`, `DROPTABLE`."""
    words: list[str] = []
    for word in _WORDS.findall(name):
        small = word.lower()
        if len(small) > 6 and small not in VERBS:
            words.extend(_unglued(small))
        else:
            words.append(small)
    return words


def _verb(words: list[str], place: int, word: str) -> Verb | None:
    """The verb that a word can be there: `deletes` leads, but later `updates` is a noun, and `as_read` says how."""
    verb = VERBS.get(word)
    if verb is None or (place and words[place - 1] == "as"):
        return None
    third = verb.form is THIRD and verb.strict and place == 0
    return verb if third or verb.form is BASE else None


def _pick(words: list[str], verbs: list[Verb | None]) -> _Picked:
    first, last = verbs[0], verbs[-1]
    if first and first.strict:
        if first.effect is READS:
            # `read_write` and `compare_delete` do both; in `get_update` the update is a thing.
            both = last and last.strict and last.effect > UNCLEAR and first.lemma != "get"
            return _sign(words, verbs, len(words) - 1, sure=False) if both else _sign(words, verbs, 0, sure=True)
        # `deploy_logs_get` may get the logs of deployments.
        return _sign(words, verbs, 0, sure=len(words) < 3 or words[-1] not in _CLOSING_READS)
    if last and last.strict and len(words) > 1:
        # `file_read` reads; but a leading word that may write leaves it to the description.
        return _sign(words, verbs, -1, sure=last.effect is not READS or not first or first.effect is READS)
    inner = next((place for place, verb in enumerate(verbs) if verb and verb.strict), 0)
    if inner:
        # After `list` or `search` another verb is part of a noun (`list_add_requests`), or it is not.
        return _sign(words, verbs, inner, sure=first is None)
    for place in (0, 1, len(words) - 1):
        if place < len(words) and verbs[place]:
            return _sign(words, verbs, place, sure=False)
    return _NOTHING


def _sign(words: list[str], verbs: list[Verb | None], place: int, *, sure: bool) -> _Picked:
    verb = verbs[place]
    return (verb.effect, words[place], verb.lemma, sure) if verb else _NOTHING


# The same long words stand in the names of many tools.
@lru_cache(maxsize=4096)
def _unglued(word: str) -> tuple[str, ...]:
    """The parts of `droptable` and `createorupdate`; any other word as it is."""
    for cut in range(3, len(word) - 2):
        verb = VERBS.get(word[:cut])
        if verb and verb.strict and verb.form is BASE:
            rest = word[cut:]
            if rest in _OBJECTS or rest.removesuffix("s") in _OBJECTS:
                return word[:cut], rest
            for join in ("or", "and"):
                if rest.startswith(join) and rest[len(join) :] in VERBS:
                    return word[:cut], join, rest[len(join) :]
    return (word,)
