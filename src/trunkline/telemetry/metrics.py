"""Numbers in the Prometheus format: counted from records, read from whoever has them, and written in slices."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from trunkline.identity import owner_of
from trunkline.telemetry.record import MOST_COMMON, OUTCOMES, CallRecord
from trunkline.telemetry.tally import BOUNDS

BUCKETS = tuple(BOUNDS[step] for step in range(8, len(BOUNDS), 3))
"""Borders of the histogram of seconds, from 1.6 ms on."""
OTHER = "(other)"
"""Stands for tools beyond those that are told apart."""
OWN = "(own)"
"""Stands for servers of users: who has which is nothing for a dashboard."""
LONGEST = 200
"""Characters of a name."""
SLICE = 200
"""Lines that are written before others have their turn."""


_tokens_in, _tokens_out = attrgetter("tokens_in"), attrgetter("tokens_out")


def _slots() -> array[int]:
    return array("Q", bytes(8 * (len(BUCKETS) + 1)))


@dataclass(slots=True)
class Counted:
    """The calls of one tool."""

    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    seconds: float = 0.0
    slots: array[int] = field(default_factory=_slots)


class Counts:
    """Calls by server, tool and outcome; the tools that are told apart are as many as the options allow."""

    SERVERS = 1000

    def __init__(self, tools: int) -> None:
        self.tools = tools
        self.of: dict[tuple[str, str], Counted] = {}
        self._known: dict[int, Counted] = {}
        self._servers: set[str] = set()
        self.tokens_in = self.tokens_out = 0

    def read(self, ended: Sequence[CallRecord]) -> None:
        """Count calls that ended."""
        for record in ended:
            outcome, seconds = record.outcome, record.seconds
            counted = self._known.get(record.alike) or self._learn(record)
            counted.outcomes[outcome] += 1
            if outcome != "asked":  # it goes on
                counted.seconds += seconds
                counted.slots[bisect_left(BUCKETS, seconds)] += 1
        self.tokens_in += sum(map(_tokens_in, ended))
        self.tokens_out += sum(map(_tokens_out, ended))

    def _learn(self, record: CallRecord) -> Counted:
        found = self._at(record.server, record.tool if record.listed else "")
        if record.alike:
            if len(self._known) >= MOST_COMMON:
                self._known.clear()
            self._known[record.alike] = found
        return found

    def _at(self, server: str, tool: str) -> Counted:
        found = self.of.get((server, tool))
        if found is not None:
            return found
        server, tool = label(server), label(tool)  # names that would be written alike are one: twice, they are refused
        if owner_of(server):
            server, tool = OWN, ""
        elif server not in self._servers:
            if len(self._servers) >= self.SERVERS:
                server, tool = OTHER, ""
            self._servers.add(server)
        if tool and len(self.of) >= self.tools and (server, tool) not in self.of:
            tool = OTHER
        return self.of.setdefault((server, tool), Counted())

    def families(self) -> Iterator[Family]:
        """What is written of them."""
        places = list(self.of.items())
        yield Family(
            "trunkline_calls_total",
            "counter",
            "Calls that ended, by how they did.",
            (
                Sample({"server": server, "tool": tool, "outcome": outcome}, counted.outcomes[outcome])
                for (server, tool), counted in places
                for outcome in OUTCOMES
                if counted.outcomes[outcome]
            ),
        )
        yield Family(
            "trunkline_call_seconds",
            "histogram",
            "Seconds from a call's beginning to its end.",
            (sample for place, counted in places for sample in _histogram(place, counted)),
        )
        tokens = [Sample({"direction": "in"}, self.tokens_in), Sample({"direction": "out"}, self.tokens_out)]
        yield Family("trunkline_tokens_total", "counter", "About how many tokens arguments and answers took.", tokens)


@dataclass(frozen=True, slots=True)
class Sample:
    """One number, and what it is of."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


@dataclass(frozen=True)
class Family:
    """Numbers of one name."""

    name: str
    kind: str
    """`counter`, `gauge` or `histogram`."""
    help: str
    samples: Iterable[Sample]


def single(name: str, kind: str, help: str, value: float) -> Family:
    """One number alone."""
    return Family(name, kind, help, (Sample({}, value),))


def written(families: Iterable[Family]) -> Iterator[bytes]:
    """The text of all of them, in pieces that are made quickly."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
        for sample in family.samples:
            lines.append(f"{family.name}{sample.suffix}{_labels(sample.labels)} {_number(sample.value)}\n")
            if len(lines) >= SLICE:
                yield "".join(lines).encode()
                lines.clear()
    yield "".join(lines).encode()


def _histogram(place: tuple[str, str], counted: Counted) -> Iterator[Sample]:
    labels = {"server": place[0], "tool": place[1]}
    passed = 0
    for bound, count in zip((*_WRITTEN, "+Inf"), counted.slots, strict=True):
        passed += count
        yield Sample({**labels, "le": bound}, passed, "_bucket")
    yield Sample(labels, counted.seconds, "_sum")
    yield Sample(labels, passed, "_count")


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def label(name: str) -> str:
    """A name as it is told: it cannot end its line, nor fill it, whatever a server calls itself."""
    name = name[:LONGEST]
    return name if name.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in name)


def _escaped(value: str) -> str:
    return label(value).replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


_WRITTEN = tuple(f"{bound:.6g}" for bound in BUCKETS)
Numbers = Callable[[], Iterable[Family]]
"""Reads numbers from whoever has them."""
