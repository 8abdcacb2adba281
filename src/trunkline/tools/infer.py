"""What a tool most likely does, told from its name, description and arguments; a doubt is never called safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trunkline.tool import Annotations
from trunkline.tools.signs import NameSign, SchemaSign, TextSign, read_name, read_schema, read_text
from trunkline.tools.verbs import CHANGES, DESTROYS, OVERWRITES, READS, RUNS, UNCLEAR, Effect, words

_LOOKS_AT_CODE = words("analyse analyze check compare describe diagnose explain lint parse translate validate verify")
_PLAIN_READS = frozenset(("list", "query", "search"))
_DOES_ANYTHING = frozenset(("eval", "evaluate", "exec", "execute", "manage"))
_SAYS_THE_END_STATE = words("assign configure disable enable overwrite put rename replace set update upsert")
_LONG_WORK = frozenset(("analyse", "analyze", "calculate", "compute", "generate", "process", "transform"))
_WEB_WORDS = frozenset(("browser", "email", "http", "internet", "sms", "url", "web", "website"))
_LONG_DESCRIPTION = 100
_CHANGING_NAMES = words(
    "active activity alerts alive availability battery browser busy clock connected console countdown cpu current "
    "dashboard dice draw events feed forecast health heartbeat inbox incidents jobs last latest live load log logs "
    "metrics monitor newest news next notification notifications now odds online pending ping poll position "
    "presence price prices process processes progress queue quote quotes random recent roll running sample score "
    "scores screenshot sensor sensors shuffle snapshot standings state stats status stock stocks tail temperature "
    "time timer timestamp today tomorrow traffic trending unread upcoming uptime usage uuid watch weather yesterday"
)
_FILES = words("dir directories directory file filename files filesystem folder folders path paths tree")


@dataclass(frozen=True, slots=True)
class Inference:
    """What was inferred, how sure it is, and from which words."""

    annotations: Annotations
    effect: Effect
    confidence: float
    """From 0, nothing is known, to 1."""
    evidence: tuple[str, ...]
    """One short sentence for each word that counted."""


def infer(name: str, description: str = "", schema: Mapping[str, Any] | None = None) -> Inference:
    """Tell from the words what the tool does."""
    named, told, given = read_name(name), read_text(description), read_schema(schema)
    effect, confidence = _decide(named, told, given)
    changing = _changing(named, told, given)
    destructive = _destructive(effect, named, told, given)
    annotations = Annotations(
        read_only_hint=True if effect is READS else None if effect is UNCLEAR else False,
        destructive_hint=destructive,
        idempotent_hint=_idempotent(effect, named, told),
        open_world_hint=True if told.web or given.address or not _WEB_WORDS.isdisjoint(named.words) else None,
        # An update is destructive in MCP's sense, yet to ask a person before each would teach them to say yes.
        requires_confirmation=(effect is not OVERWRITES or bool(given.consent)) if destructive else None,
        complexity=_complexity(named, told, description),
        volatile_hint=bool(changing),
    )
    return Inference(annotations, effect, confidence, (*_evidence(named, told, given), *changing))


def _decide(named: NameSign, told: TextSign, given: SchemaSign) -> tuple[Effect, float]:
    effect, confidence = _by_name(named, told)
    if effect > UNCLEAR and named.sure:
        return effect, confidence
    if given.effect > max(effect, UNCLEAR):
        return given.effect, 0.8
    if effect is READS and named.lemma not in _LOOKS_AT_CODE:
        anything = given.code or (
            told.language and not {"query", "run", "execute"}.isdisjoint((named.lemma, told.lemma))
        )
        if given.doubt or given.consent or (anything and not told.read_only):
            return UNCLEAR, 0.3
    return effect, confidence


def _by_name(named: NameSign, told: TextSign) -> tuple[Effect, float]:
    """What name and description say together: the name's verb first, and writes before reads."""
    if not named.sure or named.effect is None or named.effect is UNCLEAR:
        return _by_text(named, told)
    if named.effect is READS:
        besides = max(told.effect or READS, told.joined, told.later)
        if besides <= UNCLEAR or (besides is RUNS and told.read_only):
            return READS, 0.97 if told.effect is READS else 0.9
        return (DESTROYS, 0.6) if besides is DESTROYS else (UNCLEAR, 0.3)
    if named.effect is RUNS and told.read_only:
        return READS, 0.8
    worst = max(named.effect, told.joined)
    if told.irreversible:
        return DESTROYS, 0.95
    return CHANGES if worst is OVERWRITES and told.keeps else worst, 0.95


def _by_text(named: NameSign, told: TextSign) -> tuple[Effect, float]:
    """What the description says of a tool whose name leaves it open."""
    says = named.effect
    besides = max(told.joined, told.later, told.effect or READS)
    if besides > UNCLEAR:
        if besides is RUNS and told.read_only:
            return READS, 0.8
        return max(besides, says or READS), 0.8
    if told.effect is not READS:
        if says is READS and (told.effect is None or named.lemma in _PLAIN_READS):
            return READS, 0.7
        if told.read_only and (says or READS) <= UNCLEAR:
            return READS, 0.7
        return max(says or READS, UNCLEAR), 0.4
    if says is READS:
        return READS, 0.85
    if told.late if says is None else (told.weak or told.late):
        return UNCLEAR, 0.3
    if says is RUNS and not told.read_only:
        return UNCLEAR, 0.3
    return READS, 0.75 if says is None else 0.7


def _destructive(effect: Effect, named: NameSign, told: TextSign, given: SchemaSign) -> bool | None:
    if effect is READS:
        return False
    if effect is UNCLEAR:
        return None
    if effect in (DESTROYS, OVERWRITES) or given.consent or given.doubt == "overwrite":
        return True
    if effect is RUNS and (given.code or named.lemma in _DOES_ANYTHING or told.lemma in _DOES_ANYTHING):
        return True
    return None


def _idempotent(effect: Effect, named: NameSign, told: TextSign) -> bool | None:
    if effect is READS or told.repeatable:
        return True
    verb = named.lemma if named.sure else told.lemma
    return True if effect <= OVERWRITES and verb in _SAYS_THE_END_STATE else None


def _complexity(named: NameSign, told: TextSign, description: str) -> Literal["simple", "medium", "complex"]:
    leads = named.words[:1] == (named.word,)
    if told.heavy or told.lemma in _LONG_WORK or (leads and named.lemma in _LONG_WORK):
        return "complex"
    return "medium" if len(description) > _LONG_DESCRIPTION else "simple"


def _changing(named: NameSign, told: TextSign, given: SchemaSign) -> tuple[str, ...]:
    """Why the answers of a tool that reads change without any call of ours; nothing when no word says so."""
    word = next((word for word in named.words if word in _CHANGING_NAMES), "")
    if word:
        return (f"The name says {word!r}, which changes by itself.",)
    if told.changing:
        return (f"The description says {told.changing!r}, which changes by itself.",)
    live = given.place or next((word for word in named.words if word in _FILES), "")
    return (f"{live!r} is about files, which others change.",) if live else ()


def _evidence(named: NameSign, told: TextSign, given: SchemaSign) -> tuple[str, ...]:
    found: list[str] = []
    if named.word:
        found.append(f"The name {'says' if named.sure else 'may say'} {named.word!r}.")
    if told.word:
        found.append(f"The description says {told.word!r}.")
    if told.other:
        found.append(f"The description also says {told.other!r}.")
    if told.read_only:
        found.append("The description says that it only reads.")
    if told.irreversible:
        found.append("The description says that it cannot be undone.")
    if given.word:
        found.append(f"The action {given.word!r} can be chosen.")
    if given.code:
        found.append(f"The argument {given.code!r} can say anything.")
    if given.consent:
        found.append(f"The argument {given.consent!r} asks for consent.")
    if given.doubt:
        found.append(f"The argument {given.doubt!r} is one of tools that write.")
    return tuple(found)
