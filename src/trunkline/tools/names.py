"""The names that callers see: legal for every model vendor, stable, and resolved by table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST = 64
_HASH = 8
_ROOM = LONGEST - _HASH - 1
"""What is left of a name before the hash."""
_SHORT = 24


def legal(name: str) -> str:
    """The name itself if every vendor takes it, else a shortened one with a hash of the whole."""
    if LEGAL.fullmatch(name):
        return name
    plain = _plain(name)
    return f"{plain[:_ROOM]}_{_digest(name)}" if plain else f"tool_{_digest(name)}"


def prefixed(server: str, name: str) -> str:
    """`server__tool`, legal. Nothing but this server's tool is ever called so, whichever other servers there are."""
    prefix = _prefix(server)
    whole = f"{prefix}__{name}"
    if LEGAL.fullmatch(whole):
        return whole
    shortened = f"{prefix}__{_plain(name) or 'tool'}"[:_ROOM]
    return f"{shortened.rstrip('_')}_{_digest(server, name)}"


@lru_cache(maxsize=10_000)
def _prefix(server: str) -> str:
    """The server's name, or a short one with a hash, that ends where the first `__` begins.

    So tools stay behind the prefix of their own server, however they are called: `a__b` + `c` is not `a` + `b__c`.
    """
    if LEGAL.fullmatch(server) and "__" not in server and not server.endswith("_"):
        return server
    return f"{re.sub('_+', '_', _plain(server))[:_SHORT].rstrip('_') or 'server'}_{_digest(server)}"


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def closest(name: str, among: Iterable[str], most: int) -> list[str]:
    """The names that are spelt most like one that nobody has, best first."""
    text = f"  {name[: 2 * LONGEST].lower()} "
    wanted = {text[at : at + 3] for at in range(len(text) - 2)}
    scored: list[tuple[float, str]] = []
    for known in among:
        text = f"  {known.lower()} "
        alike = sum(part in text for part in wanted) / min(len(wanted), len(text) - 2)
        if alike >= _ALIKE:
            scored.append((-alike, known))
    return [known for _, known in sorted(scored)[:most]]


_ALIKE = 0.5
"""Of the shorter name's parts, so many are in the longer one, which may have a server before it."""


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
        return _unique({pair: prefixed(*pair) for pair in pairs})
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
    unique, more = _unique(result)
    return unique, problems + more


def _unique(shown: dict[tuple[str, str], str]) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Two names that were made equal by shortening are told apart by a hash of what they really are."""
    taken: dict[str, tuple[str, str]] = {}
    for pair, name in shown.items():
        if name in taken:
            name = f"{name[:_ROOM]}_{_digest(*pair)}"
        taken[name] = pair
    return {pair: name for name, pair in taken.items()}, []
