"""What a tool's description says it does: its first verb, those joined to it, and what it denies."""

from __future__ import annotations

import re
from typing import NamedTuple

from trunkline.tools.verbs import BASE, OVERWRITES, PAST, READS, RUNS, THIRD, VERBS, Effect, Verb, words

_READ_AT_MOST = 300
# A line that merely wraps ends nothing; an empty one, or one that begins an entry, does.
_TOKENS = re.compile(r"[a-z][a-z'’-]*|[,/&]|[.:;!?]|\n(?=\s*(?:\n|[-*•]|\d+[.)]))")
_STOPS = frozenset(".:;!?\n")
_JOINS = frozenset((",", "/", "&", "and", "or", "then"))
_OPENINGS = words(
    "this that it a an the tool command endpoint function operation action method api call will can could should may "
    "is are be used use useful to for allows allow allowing you your lets let enables helps help users user agents "
    "agent us one when if need want also always only beta deprecated note warning important tip purpose mcp by which "
    "new ability able designed intended utility interface service either please both"
)
_ARTICLES = words("a an the its their your our his my each every any some all")
_PREPOSITIONS = words("for of to in by with when on from")
_AFTER_NOUNS = [[word] for word in ("is", "are", "can", "requires", "will", "may", "this")]
_DENIALS = words("not never without no doesn't doesn’t don't don’t won't won’t cannot can't can’t nor instead")
_WEAK = frozenset(("give", "gives", "provide", "provides", "return", "returns"))
# What else a tool is said to do counts if it is one of these; "accepts", "extends" or "expires" say little.
_TELLING_LEMMAS = words(
    "add append cache cancel change clear create delete deploy destroy drop edit erase insert install kill mark modify "
    "move overwrite publish purge remove rename replace reset restart revoke save send set store terminate truncate "
    "uninstall update upload upsert wipe write"
)
_TELLING = frozenset(word for word, verb in VERBS.items() if verb.lemma in _TELLING_LEMMAS)
_MATTERS = _STOPS | _DENIALS | _TELLING | _OPENINGS
_LOOKS = words(
    "search searches query queries lookup lookups check checks diagnostic diagnostics analysis retrieval scan "
    "validation comparison inspection research"
)
_ENDS_OF_PHRASE = _STOPS | _JOINS | _PREPOSITIONS | {"that", "which"}
_CLAIM = re.compile(
    r"(?<!non-)(?<!not )\bread[- ]?only\b(?=\s*(?:[.,;:)!—–]|$|\b(?:operation|tool|quer|sql|command|action|access|"
    r"endpoint|call|mode|request|select|transaction|and\b|cypher|statement)))|only reads\b|only select\b"
    r"|\b(?:no|without(?: any)?) side[- ]effect|\bselect (?:quer|statement)"
)
_ENDING = re.compile(
    r"\b(?:cannot|can't|can not) be (?:undone|reversed|recovered|restored)\b|irreversibl[ey]\b|\bpermanently\b"
    r"|(?<!non-)(?<!not )(?<!n't )\bdestructive\b"
)
_LANGUAGE = words("sql graphql cypher sparql mongodb psql gremlin mutation mutations database databases")
_WEB = words("web internet website websites webpage webpages online")
_HEAVY = words("analyse analyses analyze analyzes calculate calculates generate generates transform transforms")
_NOTED = (
    words("read-only readonly side side-effect side-effects select idempotent undone reversed recovered restored")
    | words("irreversible irreversibly permanently destructive")
    | _LANGUAGE
    | _WEB
    | _HEAVY
)


class TextSign(NamedTuple):
    """What the description says."""

    effect: Effect | None = None
    word: str = ""
    lemma: str = ""
    weak: bool = False
    """The word says little: "Returns ..." is said of many a write."""
    late: bool = False
    """The word is not in the first sentence, whose own verb may be one that we do not know."""
    joined: Effect = READS
    """The worst of what the first sentence joins to its verb: "fetches and deletes"."""
    later: Effect = READS
    """The worst of what a later sentence says the tool does: "Also saves"."""
    other: str = ""
    keeps: bool = False
    """It says that it does not delete or overwrite."""
    read_only: bool = False
    """It says itself that it only reads."""
    irreversible: bool = False
    repeatable: bool = False
    language: bool = False
    """It speaks of a database, or of a language in which one can also write to it."""
    web: bool = False
    heavy: bool = False
    """It generates, analyses or transforms."""


NO_TEXT = TextSign()


def read_text(description: str) -> TextSign:
    """Find the first verb of a sentence, and the writing verbs that the same tool is said to do."""
    if not description:
        return NO_TEXT
    text = description[:_READ_AT_MOST].lower()
    tokens = _TOKENS.findall(text)
    first, place = _first_verb(tokens)
    sign = *first, *_besides(tokens, place)
    # Most texts have none of these words, and to look for words is far cheaper than for a pattern.
    if _NOTED.isdisjoint(tokens) and "read only" not in text and "only reads" not in text:
        return TextSign(*sign)
    return TextSign(
        *sign,
        _CLAIM.search(text) is not None,
        _ENDING.search(text) is not None,
        "idempotent" in tokens and "not idempotent" not in text,
        not _LANGUAGE.isdisjoint(tokens),
        not _WEB.isdisjoint(tokens),
        not _HEAVY.isdisjoint(tokens),
    )


def _first_verb(tokens: list[str]) -> tuple[tuple[Effect | None, str, str, bool, bool], int]:
    """The verb that opens a sentence, and its place: "Deletes", "This tool will delete", "Tool for deleting"."""
    opening = True
    sentence = denied = 0
    previous = ""
    for place, word in enumerate(tokens):
        if word in _STOPS:
            sentence += not opening and word != ":"
            opening, denied = True, 0
        elif opening:
            verb = VERBS.get(word)
            if word in _DENIALS:
                denied = 5
            elif denied:
                denied -= 1
            elif word in _WEAK:
                return (READS, word, word.removesuffix("s"), True, sentence > 0), place
            elif verb is None or word in _OPENINGS or _is_noun(verb, previous):
                opening = word in _OPENINGS or word in _JOINS or word.endswith("ly")
            elif tokens[place + 1 : place + 2] in _AFTER_NOUNS:
                opening = False
            else:
                looks = verb.effect is RUNS and _looks(tokens, place)
                return (READS if looks else verb.effect, word, verb.lemma, False, sentence > 0), place
        previous = word
    return (None, "", "", False, False), len(tokens)


def _besides(tokens: list[str], place: int) -> tuple[Effect, Effect, str, bool]:
    """What the tool is said to do besides its first verb, and whether it promises to delete nothing."""
    # Where no sentence opens with a verb, one anywhere counts: "A service that deletes ...".
    anywhere = place == len(tokens)
    rest = tokens if anywhere else tokens[place + 1 :]
    if _TELLING.isdisjoint(rest):
        return READS, READS, "", False
    joined = later = READS
    other = previous = ""
    first_sentence = True
    opening = keeps = promised = False
    denied = 0
    lead = BASE if anywhere else VERBS[tokens[place]].form
    for word in rest:
        if denied:
            denied -= 1
        if word not in _MATTERS:
            if word[-2:] != "ly":
                opening, previous = False, word
            continue
        if word in _STOPS:
            first_sentence = False
            opening, denied = True, 0
        elif word in _DENIALS:
            denied = 6
            # "Do not delete ..." warns the reader.
            promised = previous != "do" and word not in ("don't", "don’t", "no")
        elif word in _TELLING:
            verb = VERBS[word]
            if denied:
                keeps = keeps or (promised and verb.effect >= OVERWRITES and verb.form is not PAST)
            elif first_sentence and verb.form is lead and previous in _JOINS:
                joined, other = max((joined, other), (verb.effect, word))
            elif (opening or anywhere) and verb.form is THIRD and not _is_noun(verb, previous):
                later, other = max((later, other), (verb.effect, word))
            opening = False
        previous = word
    return joined, later, other, keeps


def _is_noun(verb: Verb, previous: str) -> bool:
    return previous in _ARTICLES or (verb.form is THIRD and previous in _PREPOSITIONS)


def _looks(tokens: list[str], place: int) -> bool:
    """Whether what is run is a look: "Runs a search", "Performs advanced filtered queries"."""
    for word in tokens[place + 1 : place + 6]:
        if word in _ENDS_OF_PHRASE:
            return False
        if word in _LOOKS:
            return True
    return False
