"""What a tool's name, description and arguments say it does: which word is the verb, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from trunkline.tools.verbs import BASE, OVERWRITES, PAIRS, PAST, READS, RUNS, THIRD, UNCLEAR, VERBS, Effect, Verb, words
from trunkline.untrusted import as_list, as_object

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_JOINING = frozenset(("and", "or", "then"))
_SPECIAL = _JOINING | {second for _, second in PAIRS}
_CLOSING_READS = frozenset(("describe", "fetch", "find", "get", "read", "retrieve"))
_OBJECTS = words(
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
            elif verb and first in _JOINING and effect is not None and verb.effect > effect:
                effect, word, lemma, sure = verb.effect, second, verb.lemma, True
        # `look_and_burn`: what joins a leading verb is a verb too, and one that is unknown may do anything.
        if effect is READS and len(words) > 2 and words[1] in _JOINING and verbs[0] and verbs[2] is None:
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
_CHANGING = words(
    "clock current currently elapsed latest live now online random randomly real-time realtime recent recently today "
    "today's tomorrow uptime up-to-date upcoming yesterday"
)
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
    changing: str = ""
    """A word for what changes by itself: "current", "random"."""


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
        return TextSign(*sign, changing=_changing(tokens))
    return TextSign(
        *sign,
        _CLAIM.search(text) is not None,
        _ENDING.search(text) is not None,
        "idempotent" in tokens and "not idempotent" not in text,
        not _LANGUAGE.isdisjoint(tokens),
        not _WEB.isdisjoint(tokens),
        not _HEAVY.isdisjoint(tokens),
        _changing(tokens),
    )


def _changing(tokens: list[str]) -> str:
    return "" if _CHANGING.isdisjoint(tokens) else next(word for word in tokens if word in _CHANGING)


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


_KINDS = {
    name: kind
    for kind, names in {
        "address": "domain uri url urls webpage website",
        "maybe code": "code expression function query source",
        "code": "cmd command cypher javascript js mutation script shell sql statement",
        "action": "action httpmethod method mode op operation subcommand verb",
        "consent": "confirm confirmation confirmdelete confirmdeletion confirmed",
        "doubt": "dryrun ifmatch overwrite",
    }.items()
    for name in names.split()
}
_LANGUAGES = ("sql", "graphql", "cypher", "javascript", "python", "shell")
_PLACES = ("path", "file", "filename", "dir", "directory", "output", "folder")


class SchemaSign(NamedTuple):
    """What the arguments say."""

    effect: Effect = READS
    """The worst action that can be chosen."""
    word: str = ""
    code: str = ""
    """An argument that can say anything."""
    consent: str = ""
    """An argument by which a person agrees."""
    doubt: str = ""
    """An argument that a tool which only reads would hardly have."""
    address: bool = False
    """It takes an address on the network."""
    place: str = ""
    """An argument that names a file or a folder."""


NO_SCHEMA = SchemaSign()


def read_schema(schema: Mapping[str, Any] | None) -> SchemaSign:
    """Look at the names, choices and descriptions of the arguments."""
    properties: Any = schema.get("properties") if schema else None
    if not isinstance(properties, Mapping):
        return NO_SCHEMA
    sign = NO_SCHEMA
    for name, value in cast(Mapping[str, Any], properties).items():
        kind = _kind(name)
        if not kind:
            continue
        about = as_object(value)
        if kind in ("action", "code") and "enum" in about:
            if "filter" not in _about(about):
                sign = _chosen(sign, about["enum"])
        elif kind == "code" or (kind == "maybe code" and any(word in _about(about) for word in _LANGUAGES)):
            sign = sign._replace(code=name)
        elif kind == "consent":
            sign = sign._replace(consent=name)
        elif kind == "doubt" or (kind == "place" and _saves(_about(about))):
            sign = sign._replace(doubt=name)
        elif kind == "place":
            sign = sign._replace(place=name)
        elif kind == "address":
            sign = sign._replace(address=True)
    return sign


# The same few names stand in the schemas of most tools.
@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    plain = name.lower().replace("_", "").replace("-", "")
    if plain in _KINDS:
        return _KINDS[plain]
    if plain.endswith(_PLACES):
        return "doubt" if plain.startswith(("output", "save", "dest", "download")) else "place"
    return ""


def _about(about: Mapping[str, Any]) -> str:
    return str(about.get("description", ""))[:200].lower()


def _saves(text: str) -> bool:
    return "save" in text or "write" in text


def _chosen(sign: SchemaSign, choices: Any) -> SchemaSign:
    for choice in as_list(choices):
        for word in split_name(choice)[:1] if isinstance(choice, str) else ():
            verb = VERBS.get(word)
            if verb and verb.form is BASE and verb.effect > max(sign.effect, UNCLEAR):
                sign = sign._replace(effect=verb.effect, word=choice)
    return sign
