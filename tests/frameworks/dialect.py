"""How a model's vendor is spoken to: what a request must hold, and what an answer looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """A call that a model asks for."""

    id: str
    tool: str
    arguments: Json


@dataclass(frozen=True)
class Told:
    """What a model was told that a tool answered."""

    id: str
    text: str
    failed: bool = False
    images: int = 0


class Dialect(Protocol):
    """The format of one API; what its vendor would refuse is an `AssertionError`."""

    path: str
    """Where requests go."""
    tells_failure: bool
    """Whether a request says in a member of its own that a tool failed."""
    shows_pictures: bool
    """Whether the answer of a tool may be a picture."""

    def tools(self, body: Json) -> dict[str, Json]:
        """The schema of each tool by its name."""
        ...

    def told(self, body: Json) -> list[Told]:
        """What tools answered, from the first call to the last."""
        ...

    def ask(self, asks: Sequence[Ask]) -> Json:
        """An answer that asks for calls."""
        ...

    def say(self, text: str) -> Json:
        """An answer that is the last."""
        ...
