"""The names of tools: what is legal where, how a name is made to fit, whose it is when several want it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from trunkline.identity import unit_name
from trunkline.model import Entry, Kind, Offer, Snapshot
from trunkline.tools import builtin

_HASH = 8
_SHORT = 24
_COMPARED = 5_000
_ALIKE = 0.4
"""Of the shorter name's parts, so many are in the longer one, which may have a server before it."""


@dataclass(frozen=True, slots=True)
class NameRule:
    """Which names a format takes."""

    format: str
    letters: str
    """The letters allowed, as the inside of a regular expression's brackets."""
    longest: int
    first: str = ""
    """The letters allowed at the beginning, where they are fewer."""

    def allows(self, name: str) -> bool:
        """Whether the name can stay as it is."""
        return (
            re.fullmatch(rf"(?=[{self.first or self.letters}])[{self.letters}]{{1,{self.longest}}}", name) is not None
        )

    def signed(self, name: str, *source: str) -> str:
        """The name with a hash of what it really is, shortened to make room for it."""
        return f"{name[: self.longest - _HASH - 1]}_{_digest(*source)}"


MCP = NameRule("MCP", r"a-zA-Z0-9_.\-", 128)
ANTHROPIC = NameRule("Anthropic", r"a-zA-Z0-9_\-", 64)
OPENAI = NameRule("OpenAI", r"a-zA-Z0-9_\-", 64)
GEMINI = NameRule("Gemini", r"a-zA-Z0-9_\-", 64, first="a-zA-Z_")
PORTABLE = NameRule("every format", r"a-zA-Z0-9_\-", 64, first="a-zA-Z_")
SHOWN = NameRule("the gateway", r"a-zA-Z0-9_\-", 64)
"""What callers may see, since every model vendor takes it."""


class NameCheck(NamedTuple):
    """Whether a name is valid, and one sentence for each thing that is wrong with it."""

    valid: bool
    errors: tuple[str, ...]


def validate_tool_name(name: str, *, rule: NameRule = MCP) -> NameCheck:
    """Check a name against what a format allows; MCP's own rule unless another is given."""
    errors: list[str] = []
    if not name:
        errors.append("A tool needs a name.")
    if len(name) > rule.longest:
        errors.append(f"The name has {len(name)} letters; {rule.format} takes {rule.longest}.")
    strange = sorted(set(re.sub(f"[{rule.letters}]", "", name)))
    if strange:
        errors.append(f"{rule.format} takes no {', '.join(map(repr, strange))} in a name.")
    if name and not strange and rule.first and not re.match(f"[{rule.first}]", name):
        errors.append(f"For {rule.format} a name begins with a letter or an underscore.")
    return NameCheck(not errors, tuple(errors))


def sanitize_tool_name(name: str, *, rule: NameRule = MCP) -> str:
    """The name itself if it is valid, else one like it that is; two names may become one (see `distinct`)."""
    if rule.allows(name):
        return name
    plain = re.sub(f"[^{rule.letters}]", "_", name)
    if not re.search("[a-zA-Z0-9]", plain):
        return f"tool_{_digest(name)}"
    if rule.first and not re.match(f"[{rule.first}]", plain):
        plain = f"_{plain}"
    return plain if len(plain) <= rule.longest else rule.signed(plain, name)


def legal(name: str) -> str:
    """The name itself if every vendor takes it, else a shortened one with a hash of the whole."""
    return name if _is_legal(name) else SHOWN.signed(_plain(name) or "tool", name)


def prefixed(server: str, name: str) -> str:
    """`server__tool`, legal. Nothing but this server's tool is ever called so, whichever other servers there are."""
    before = server_prefix(server)
    whole = f"{before}__{name}"
    if _is_legal(whole):
        return whole
    shortened = f"{before}__{_plain(name) or 'tool'}"[: SHOWN.longest - _HASH - 1]
    return SHOWN.signed(shortened.rstrip("_"), server, name)


@lru_cache(maxsize=10_000)
def server_prefix(server: str) -> str:
    """The server's name, or a short one with a hash, that ends where the first `__` begins.

    So tools stay behind the prefix of their own server, however they are called: `a__b` + `c` is not `a` + `b__c`.
    """
    if _is_legal(server) and "__" not in server and not server.endswith("_"):
        return server
    return f"{re.sub('_+', '_', _plain(server))[:_SHORT].rstrip('_') or 'server'}_{_digest(server)}"


def with_prefix(prefix: str, name: str) -> str:
    """`prefix_name`; a prefix that ends with an underscore is taken as it is."""
    return f"{_joint(prefix)}{name}" if prefix else name


def without_prefix(prefix: str, name: str) -> str:
    """The name that was prefixed; a name without the prefix stays."""
    rest = name.removeprefix(_joint(prefix)) if prefix else name
    return rest or name


def distinct(
    wanted: Sequence[str], given: Sequence[str], servers: Sequence[str] = (), *, rule: NameRule = MCP
) -> list[str]:
    """The names wanted, each only once.

    Of several that want one name, the only one that was given that very name keeps it. The others get a hash of
    their server and of what they were given, so that the result does not depend on their order.
    """
    claims: dict[str, list[int]] = {}
    for place, name in enumerate(wanted):
        claims.setdefault(name, []).append(place)
    result = list(wanted)
    taken = set(claims)
    for name, places in claims.items():
        named = [place for place in places if given[place] == name]
        keeper = named[0] if len(named) == 1 else -1
        for place in places if len(places) > 1 else ():
            if place != keeper:
                source = (servers[place], given[place]) if servers else (given[place],)
                result[place] = _free(name, source, taken, rule)
                taken.add(result[place])
    return result


def collisions(names: Iterable[str], *, rule: NameRule = MCP) -> dict[str, tuple[str, ...]]:
    """The sanitised names that several of the given names would get, with those who want them."""
    claims: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        claims.setdefault(sanitize_tool_name(name, rule=rule), []).append(name)
    return {shown: tuple(wanting) for shown, wanting in claims.items() if len(wanting) > 1}


ConflictPolicy = Literal["first-wins", "last-wins", "namespace", "prefer", "error"]


def conflict_winner(servers: Sequence[str], policy: ConflictPolicy | str, prefer: Iterable[str] = ()) -> str:
    """Whose a name is that several servers offer, in their order; whom one prefers has it under any policy.

    Empty when it is nobody's: by `namespace` all show theirs with the server before it, by `prefer` and `error` none.
    """
    preferred = next((server for server in prefer if server in servers), "")
    if preferred or policy not in ("first-wins", "last-wins"):
        return preferred
    return servers[0] if policy == "first-wins" else servers[-1]


def show(
    offered: Mapping[str, Iterable[str]],
    *,
    namespace: str,
    conflicts: str,
    prefer: Sequence[str] = (),
    legalise: bool = True,
    reserved: Collection[str] = (),
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Give every server's names their shown form; what cannot be shown is said in the second part.

    Names that are `reserved` are nobody's: who has one is shown with its server before it.
    """
    pairs = [(server, name) for server, names in offered.items() for name in names]
    if namespace == "always":
        return _unique({pair: prefixed(*pair) for pair in pairs}), []
    bare = {pair: legal(pair[1]) if legalise else pair[1] for pair in pairs}
    bare |= {pair: prefixed(*pair) for pair, shown in bare.items() if shown in reserved}
    claims: dict[str, list[tuple[str, str]]] = {}
    for pair, shown in bare.items():
        claims.setdefault(shown, []).append(pair)
    result: dict[tuple[str, str], str] = {}
    problems: list[str] = []
    for shown, claimed in claims.items():
        servers = list(dict.fromkeys(server for server, _ in claimed))
        if len(claimed) == 1:
            result[claimed[0]] = shown
        elif winner := conflict_winner(servers, conflicts, prefer):
            result[next(pair for pair in claimed if pair[0] == winner)] = shown
            others = ", ".join(server for server in servers if server != winner)
            problems.append(f"{shown!r} is {winner}'s; hidden: {others or 'its namesakes'}.")
        elif conflicts == "namespace":
            result.update({pair: prefixed(*pair) for pair in claimed})
        else:
            problems.append(f"{shown!r} is offered by {', '.join(servers)}, and shown by none.")
    return _unique(result), problems


def meaning(name: str, kind: Kind, snapshot: Snapshot) -> Entry | None:
    """The tool or prompt that callers mean by a name: as it is shown, with its server before it, or its own name alone.

    So a name that was once given out goes on to work, whichever servers come and go; an own name that several
    servers have means none of them.
    """
    table = snapshot.tools if kind is Kind.TOOL else snapshot.prompts
    found = table.get(name) or snapshot.meant.get((kind, name))
    if found is None and (found := _not_shown(name, kind, snapshot)) is not None:
        snapshot.meant[kind, name] = found
    return found


def namesakes(name: str, kind: Kind, snapshot: Snapshot) -> list[Entry]:
    """Everything that its server calls so; nothing where the name could be meant for another server."""
    # One that looks prefixed may be how a tool is called of a server that is away: it must never mean another's.
    if name in builtin.NAMES or is_prefixed(name, snapshot):
        return []
    tables = (offer.own.get(kind) for offer in snapshot.offers.values())
    return [table[name] for table in tables if table is not None and name in table]


def is_prefixed(name: str, snapshot: Snapshot) -> bool:
    """Whether a name begins with a server's, as `server__tool` does."""
    return "__" in name and name.partition("__")[0] in snapshot.prefixes


def held_back(name: str, kind: Kind, snapshot: Snapshot) -> Entry | None:
    """What callers mean by a name, where it is held back."""
    for offer in snapshot.offers.values():
        for entry in offer.held[kind].values() if kind in offer.held else ():
            if name in (entry.shown, entry.name, prefixed(unit_name(entry.server), entry.name)):
                return entry
    return None


def _not_shown(name: str, kind: Kind, snapshot: Snapshot) -> Entry | None:
    for offer in snapshot.offers.values():
        # A name that was shortened begins so, too; what it is the name of, a table says.
        before = server_prefix(offer.server)
        if name.startswith(before[: SHOWN.longest - _HASH - 1].rstrip("_")):
            own = offer.own.get(kind, {}).get(name.removeprefix(f"{before}__"))
            if own is not None and prefixed(offer.server, own.name) == name:
                return own
            if (own := _shortened(offer, kind).get(name)) is not None:
                return own
    found = namesakes(name, kind, snapshot)
    # Where one of two is held, the name does not become the other's.
    return found[0] if len(found) == 1 and held_back(name, kind, snapshot) is None else None


@lru_cache(maxsize=64)
def _shortened(offer: Offer, kind: Kind) -> dict[str, Entry]:
    """What is too long, or not legal, with its server before it."""
    before = server_prefix(offer.server)
    own = offer.own.get(kind, {})
    return {prefixed(offer.server, name): own[name] for name in own if not _is_legal(f"{before}__{name}")}


def closest(name: str, among: Iterable[str], most: int) -> list[str]:
    """The names that are spelt most like one that nobody has, best first."""
    whole = name[: 2 * SHOWN.longest].lower()
    server, _, own = whole.rpartition("__")
    parts_of_whole, parts_of_own = _parts(whole), _parts(own)
    scored: list[tuple[float, str]] = []
    for known in among:
        theirs, _, rest = known.lower().rpartition("__")
        # That two are of one server does not make them alike.
        one_server = server in ("", theirs)
        wanted, text = (parts_of_own, f"  {rest} ") if one_server else (parts_of_whole, f"  {known.lower()} ")
        alike = sum(part in text for part in wanted) / min(len(wanted), len(text) - 2)
        if alike >= _ALIKE:
            scored.append((-alike, known))
    return [known for _, known in sorted(scored)[:most]]


def _parts(name: str) -> set[str]:
    text = f"  {name} "
    return {text[at : at + 3] for at in range(len(text) - 2)}


def did_you_mean(name: str, known: Collection[str], most: int = 1) -> str:
    """A hint for whoever used a name that nobody has; empty where none is like it, or too many would be compared."""
    close = closest(name, known, most) if len(known) <= _COMPARED else []
    return f"Did you mean {' or '.join(map(repr, close))}?" if close else ""


_is_legal = re.compile(rf"[{SHOWN.letters}]{{1,{SHOWN.longest}}}").fullmatch


def _plain(name: str) -> str:
    return re.sub(rf"[^{SHOWN.letters}]+", "_", name).strip("_")


def _joint(prefix: str) -> str:
    return prefix if prefix.endswith("_") else f"{prefix}_"


def _unique(shown: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Two names that were made equal by shortening are told apart by a hash of what they really are."""
    taken: dict[str, tuple[str, str]] = {}
    for pair, name in shown.items():
        taken[SHOWN.signed(name, *pair) if name in taken else name] = pair
    return {pair: name for name, pair in taken.items()}


def _free(name: str, source: tuple[str, ...], taken: set[str], rule: NameRule) -> str:
    # Twins with the same source differ in nothing but their turn, so the turn is hashed in.
    turn = 0
    while (signed := rule.signed(name, *source, *(str(turn),) if turn else ())) in taken:
        turn += 1
    return signed


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
