"""The names that callers see: legal for every model vendor, stable, and resolved by table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST = 64
_DIGEST = 8


def legal(name: str) -> str:
    """The name itself if every vendor takes it, else a shortened one with a hash of the whole."""
    if LEGAL.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")
    return f"{plain[: LONGEST - _DIGEST - 1]}_{digest}" if plain else f"tool_{digest}"


def prefixed(server: str, name: str) -> str:
    """`server__tool`, legal."""
    return legal(f"{server}__{name}")


def show(
    offered: Mapping[str, Iterable[str]],
    *,
    namespace: str,
    conflicts: str,
    prefer: Sequence[str] = (),
    legalise: bool = True,
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Give every server's names their shown form; what cannot be shown is said in the second part."""
    pairs = [(server, name) for server, names in offered.items() for name in names]
    if namespace == "always":
        return _unique({pair: prefixed(*pair) for pair in pairs})
    bare = {pair: legal(pair[1]) if legalise else pair[1] for pair in pairs}
    claims: dict[str, list[tuple[str, str]]] = {}
    for pair, shown in bare.items():
        claims.setdefault(shown, []).append(pair)
    result: dict[tuple[str, str], str] = {}
    problems: list[str] = []
    for shown, claimed in claims.items():
        servers = list(dict.fromkeys(server for server, _ in claimed))
        if len(claimed) == 1:
            result[claimed[0]] = shown
            continue
        favourite = next((server for server in prefer if server in servers), None)
        if favourite is not None or conflicts in ("first-wins", "last-wins"):
            winner = favourite or (servers[0] if conflicts == "first-wins" else servers[-1])
            kept = next(pair for pair in claimed if pair[0] == winner)
            result[kept] = shown
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
            digest = hashlib.sha256("\0".join(pair).encode()).hexdigest()[:_DIGEST]
            name = f"{name[: LONGEST - _DIGEST - 1]}_{digest}"
        taken[name] = pair
    return {pair: name for name, pair in taken.items()}, []
