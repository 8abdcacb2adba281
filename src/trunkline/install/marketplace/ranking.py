"""Finds and orders entries by the words that are looked for; nothing that it is given is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.options import RegistrySearchOptions
from trunkline.search.tokens import is_stop, terms

_SAYS_NOTHING = frozenset(terms("mcp server servers"))
_WHOLE_ID, _IN_NAME, _IN_TAGS, _IN_TOOLS, _IN_TEXT = 50.0, 10.0, 6.0, 4.0, 2.0
_BEGINNING = 0.5
"""What a word is worth of which only the beginning was typed."""


def select(entries: Sequence[RegistryEntry], options: RegistrySearchOptions) -> list[RegistryEntry]:
    """All that fit, best first. Deleted ones never do."""
    fitting = [entry for entry in entries if entry.status != "deleted" and _fits(entry, options)]
    wanted = words_of(options.query)
    if not options.query.strip():
        return _sorted(fitting, options, {})
    scores = {entry.id: _score(entry, options.query, wanted) for entry in fitting}
    most = max((matched for matched, _ in scores.values()), default=0)
    # Where no entry has all the words, those with most of them are better than none.
    found = [entry for entry in fitting if scores[entry.id][0] == most > 0]
    return _sorted(found, options, {key: score for key, (_, score) in scores.items()})


def words_of(query: str) -> list[str]:
    """What a query looks for, without words that every server has."""
    found = list(dict.fromkeys(terms(query[:1000])))
    telling = [word for word in found if not is_stop(word) and word not in _SAYS_NOTHING]
    return telling or found


def _fits(entry: RegistryEntry, options: RegistrySearchOptions) -> bool:
    return (
        (not options.categories or not set(options.categories).isdisjoint(entry.categories))
        and (not options.tags or not set(options.tags).isdisjoint(entry.tags))
        and (not options.transport or options.transport in entry.transports)
        and (not options.verified_only or entry.verified)
    )


def _score(entry: RegistryEntry, query: str, wanted: Iterable[str]) -> tuple[int, float]:
    """How many words of the query an entry has, and what they are worth by where they stand."""
    exact = query.strip().casefold()
    if exact == entry.id.casefold() or exact == entry.name.casefold():
        return len(list(wanted)) or 1, _WHOLE_ID
    places = (
        (_IN_NAME, terms(f"{entry.id} {entry.name}")),
        (_IN_TAGS, terms(" ".join((*entry.tags, *entry.categories)))),
        (_IN_TOOLS, terms(" ".join(entry.tools))),
        (_IN_TEXT, terms(f"{entry.description} {entry.npm_package} {entry.pypi_package}")),
    )
    matched, score = 0, 0.0
    for word in wanted:
        worth = sum(weight * _found(word, there) for weight, there in places)
        matched += worth > 0
        score += worth
    return matched, score


def _found(word: str, there: Sequence[str]) -> float:
    if word in there:
        return 1.0
    return _BEGINNING if len(word) > 2 and any(other.startswith(word) for other in there) else 0.0


def _sorted(
    entries: Sequence[RegistryEntry], options: RegistrySearchOptions, scores: dict[str, float]
) -> list[RegistryEntry]:
    by = options.sort_by or ("relevance" if scores else "downloads")
    keys: dict[str, Callable[[RegistryEntry], object]] = {
        "relevance": lambda entry: (scores.get(entry.id, 0.0), entry.status == "active", entry.verified),
        "downloads": lambda entry: entry.downloads,
        "stars": lambda entry: entry.stars,
        "name": lambda entry: entry.name.casefold(),
        "last_updated": lambda entry: entry.last_updated,
    }
    # A stable sort, also in reverse: equals keep the catalogue's order.
    return sorted(entries, key=keys[by], reverse=options.sort_direction == "desc")  # type: ignore[reportArgumentType]
