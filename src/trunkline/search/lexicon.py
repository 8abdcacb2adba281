"""What people say and what tools call it: other words for a word, and what a query asks to be done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntFlag
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise, permutations
from typing import NamedTuple

from trunkline.search.tokens import is_filler, is_stop, stem, terms
from trunkline.tools.signs import NameSign, TextSign, read_name, read_text
from trunkline.tools.verbs import ADDS, CHANGES, DESTROYS, OVERWRITES, READS, RUNS, VERBS, words

_SAME = 0.85
"""What another name of a thing counts of the word itself."""
_NEAR = 0.65
"""What a word counts that only belongs to the same matter."""
_LONGEST = 4
_LONG = 12
"""A query of more words asks for several things, and not all of them for the same."""
_NO_STAND_IN = -4.5
"""Whoever wants something gone is not served by what shows or changes it."""


class Other(NamedTuple):
    """What a tool may say instead of a word: terms that count together."""

    terms: tuple[str, ...]
    weight: float


class Action(IntFlag):
    """What is done; some verbs mean several."""

    NONE = 0
    READ = 1
    LIST = 2
    SEARCH = 4
    CREATE = 8
    UPDATE = 16
    DELETE = 32
    SEND = 64
    RUN = 128


_LOOK = Action.READ | Action.LIST | Action.SEARCH


def others(found: Sequence[str]) -> dict[str, list[Other]]:
    """What else tools may say for the terms of a query, in its order; what is said of a phrase stands with its head."""
    known = lexicon()
    given: dict[str, list[Other]] = {}
    for start, term in enumerate(found):
        for length in range(1, _LONGEST + 1):
            phrase = tuple(found[start : start + length])
            if len(phrase) == length and phrase in known:
                head = term if length == 1 else next((each for each in phrase if not is_stop(each)), term)
                given.setdefault(head, []).extend(known[phrase])
    return given


@lru_cache(maxsize=1)
def lexicon() -> dict[tuple[str, ...], list[Other]]:
    """What tools may say instead of words and phrases."""
    read: dict[tuple[str, ...], list[Other]] = {}
    text = (files("trunkline.search") / "lexicon.txt").read_text(encoding="utf-8")
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        said, sign, rest = line.partition(" = ") if " = " in line else line.partition(": ")
        phrases = [tuple(terms(said)), *(tuple(terms(each.replace("+", " "))) for each in rest.split())]
        pairs = permutations(phrases, 2) if sign == " = " else ((phrases[0], each) for each in phrases[1:])
        for one, other in pairs:
            if one != other:
                read.setdefault(one, []).append(Other(other, _SAME if sign == " = " else _NEAR))
    return read


def plain(query: str) -> str:
    """A query with the values in it called what they are: a file's name is a file, an address a URL."""
    for shape, word in _SHAPES:
        query = shape.sub(word, query)
    return query


def spelt_out(query: str) -> str:
    """A query as a model reads it best: as `plain` has it, and without the abbreviations of the field."""
    return _ABBREVIATED.sub(lambda found: _SPELT_OUT[found[0].casefold()], plain(query))


def asked_action(written: Sequence[str]) -> tuple[Action, str]:
    """What the words of a query ask to be done, and the verb that says so, if one does."""
    if len(written) > _LONG:
        return Action.NONE, ""
    if phrase := _phrase(written):
        return phrase
    for place, (before, word) in enumerate(pairwise(("", *written)), 1):
        if word in _QUESTIONS:
            return _look(written), ""
        action = Action.NONE if before in _THOSE else _meant(word)  # `our open issues` are things
        if action and place < len(written):  # alone, `issue` and `file` are things
            return (_look(written) if action == _LOOK else action), word
        if not (is_stop(stem(word)) or is_filler(stem(word))):
            break
    for before, word in pairwise(("", *written)):
        verb = VERBS.get(word)
        if verb is not None and verb.strict and before not in _BEFORE_NOUNS and (action := _meant(word)):
            return action, word
    return _look(written), ""


def _phrase(written: Sequence[str]) -> tuple[Action, str] | None:
    """What is asked by several words together that mean something else than the verb among them."""
    said = f" {' '.join(written)} "
    for phrase, action in _PHRASES:
        if found := phrase.search(said):
            return action, next(filter(None, found.groups()))
    return None


def _look(written: Sequence[str]) -> Action:
    """What is to be looked at: one thing, or several."""
    return _LIST | _SEARCH if any(map(_is_several, written)) else _LOOK


def _is_several(word: str) -> bool:
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3
    return (plural and word not in _NO_PLURALS) or word in _SEVERAL


def done_action(name: str, description: str) -> Action:
    """What a tool does, by the verb of its name or else of its description."""
    said = read_name(name)
    named = _done(said)
    if named and said.lemma not in _METHODS:
        return named | _LIST if named & _READ and any(map(_is_several, said.words)) else named
    return _done(read_text(description)) or named


def _done(said: NameSign | TextSign) -> Action:
    if said.effect is None:
        return Action.NONE
    return _DONE.get(said.lemma) or _BY_EFFECT.get(said.effect) or Action.NONE


def agreement(asked: Action, done: Action) -> float:
    """How well what a tool does suits what was asked: 1 it is that, 0 nobody knows, below 0 it is another thing."""
    if not asked or not done:
        return 0.0
    if asked & done:
        return 1.0
    if asked == _DELETE:
        return _NO_STAND_IN
    return 0.0 if any(asked & one and done & other for one, other in _AKIN) else -1.0


def _meant(word: str) -> Action:
    if word in _ASKED:
        return _ASKED[word]
    verb = VERBS.get(word)
    if verb is None:
        return Action.NONE
    return _ASKED.get(verb.lemma) or _DONE.get(verb.lemma) or _BY_EFFECT.get(verb.effect) or Action.NONE


def is_light(term: str) -> bool:
    """Whether a word says what to do so broadly that it hardly tells tools apart."""
    return term in _LIGHT


_READ, _LIST, _SEARCH, _CREATE, _UPDATE, _DELETE, _SEND, _RUN = list(Action)
_BY_EFFECT = {READS: _READ | _LIST, ADDS: _CREATE, CHANGES: _UPDATE, OVERWRITES: _UPDATE, RUNS: _RUN, DESTROYS: _DELETE}
_AKIN = (
    (_READ | _LIST | _SEARCH, _READ | _LIST | _SEARCH),
    (_CREATE, _SEND | _UPDATE | _RUN),
    (_SEND, _CREATE),
    (_UPDATE, _CREATE | _RUN),
    (_RUN, _CREATE | _UPDATE | _READ | _SEARCH),
    (_READ, _RUN),
)
_DONE: dict[str, Action] = {
    word: action
    for action, group in (
        (_SEARCH, "search find query lookup look locate discover grep filter browse"),
        (_LIST, "list enumerate ls"),
        (_READ, "get read fetch retrieve show describe view download"),
        (_SEND, "send reply respond notify message email forward broadcast announce tweet"),
        (_SEND | _CREATE, "post submit publish"),
        (_CREATE | _UPDATE, "write put save store push upload attach add append insert"),
        (_RUN, "run execute exec trigger launch invoke play evaluate"),
        (_RUN | _CREATE, "start deploy"),
        (_UPDATE | _RUN, "stop restart pause resume rollout scale"),
        (_READ | _CREATE | _UPDATE, "pull checkout"),
        (_READ | _UPDATE | _CREATE | _DELETE | _RUN, "manage"),
    )
    for word in words(group)
}
_ASKED: dict[str, Action] = {
    word: action
    for action, group in (
        (_LOOK, "show see tell give check view look display want need get ls cat grep"),
        (_SEARCH | _LIST, "find search google lookup locate query"),
        (_SEARCH | _READ, "read fetch"),
        (_READ | _CREATE, "open download pull"),
        (_CREATE, "new book schedule file remind note remember build prepare request mkdir touch"),
        (_CREATE | _RUN, "zip compress archive"),
        (_CREATE | _UPDATE | _SEND, "write put"),
        (_CREATE | _UPDATE, "add save store upload attach insert set make sort organize arrange"),
        (_UPDATE | _READ, "switch"),
        (_UPDATE | _SEND, "accept decline approve reject"),
        (_UPDATE, "change move rename mark turn close resolve mv"),
        (_RUN | _CREATE, "start launch kick"),
        (_RUN, "play rerun run execute"),
        (_DELETE, "delete remove cancel forget trash clear drop erase rm rmdir"),
        (_DELETE | _UPDATE, "stop undo dismiss"),
        (_DELETE | _CREATE, "refund reimburse"),
    )
    for word in words(group)
}
_OPENED = "issue|ticket|bug|pr|pull request|merge request|case|incident|discussion|thread|dispute|account"
"""What is made when it is opened."""
_PHRASES = tuple(
    (re.compile(phrase), action)
    for phrase, action in (
        (r" (get) rid | (throw) .*away ", _DELETE),
        (
            r" (?:bring|keep|get) .*(up) to date | (check|tick|cross) (?:\w+ ){0,4}off | (done|finished|through) with ",
            _UPDATE,
        ),
        (r" (alert|notify|warn|ping|tell|let) (?:me|us) (?:know )?(?:when|whenever|if|once|as soon) ", _CREATE),
        (r" (tell|ask|let|notify|inform) (?!me |us )", _SEND),
        (r" (give) (?!me |us )", _CREATE | _UPDATE),
        (rf" (open|raise|log|start) (?:an?|another) (?:\w+ )?(?:{_OPENED}) ", _CREATE),
        (rf"^ (open|raise|log) (?:{_OPENED}) | (open) (?:an? )?new ", _CREATE),
        (r" (leave) (?:an?|some|my|the) | (thumbs) up ", _CREATE),
    )
)
"""What is asked, and which word of it is the verb."""
_METHODS = words("post put patch")
"""Methods of HTTP: where a name has one of them, the description tells what is done."""
_THOSE = words("the this that these those my our your his her its their all every each")
_BEFORE_NOUNS = _THOSE | words("a an some any no for of in")
_SEVERAL = words("all children history people")
_NO_PLURALS = words("details contents kubernetes news stats settings aws https sms")
_SHAPES = (
    (re.compile(r"https?://\S+|\bwww\.\S+|\b[\w-]+\.(?:com|org|net|io|dev|ai)\b\S*"), " url "),
    (re.compile(r"\S+@\S+\.\w+"), " email "),
    (
        re.compile(
            r"\b[\w-]+\.(?:txt|md|pdf|csv|json|ya?ml|ini|toml|py|js|ts|docx?|xlsx?|png|jpe?g|log|html|xml|sql|conf|cfg)\b"
        ),
        " file ",
    ),
    (re.compile(r"(?<!\w)#[a-z][\w-]*"), " channel "),
    (re.compile(r"\b[A-Z]{2,}-\d+\b"), " issue "),
    (re.compile(r"\d\s*\+\s*\d"), " sum "),
)
_SPELT_OUT = {
    "pr": "pull request",
    "prs": "pull requests",
    "dm": "direct message",
    "dms": "direct messages",
    "k8s": "kubernetes",
    "repo": "repository",
    "repos": "repositories",
    "db": "database",
    "mkdir": "create directory",
    "ls": "list directory",
    "rm": "delete file",
    "mv": "move file",
    "cp": "copy file",
    "grep": "search files",
    "docs": "documentation",
    "config": "configuration",
    "env": "environment",
    "todo": "task",
    "todos": "tasks",
}
_ABBREVIATED = re.compile(rf"\b(?:{'|'.join(_SPELT_OUT)})\b", re.IGNORECASE)
_QUESTIONS = words(
    "what which who whose when where why how is are was were do does did has have any whats wheres hows whos list"
)
_LIGHT = frozenset(
    stem(word)
    for word in words(
        "open make show take put go tell see look bring set turn keep new late do give get use change "
        "start stop kick way thing one two there today now please somebody someone something whole "
        "right happen come let try want need like work well really actually still yet later own it mine check"
    )
)
