"""What a conversion gives back: the value, and a report of everything that did not fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that the target cannot hold as it was."""

    path: str
    """Where it was, as a JSON Pointer into the source: `/inputSchema/properties/a/not`."""
    what: str
    """What became of it: `dropped`, `inlined`, `became anyOf`."""
    why: str
    """The reason, one sentence."""

    def __str__(self) -> str:
        return f"{self.path}: {self.what}. {self.why}"

    def below(self, place: str | int) -> Loss:
        """The same loss, seen from one level up."""
        return Loss(pointer((place,)) + self.path, self.what, self.why)


@dataclass(frozen=True, slots=True)
class Converted(Generic[T]):
    """A converted value; without losses, converting it back gives the source again."""

    value: T
    losses: tuple[Loss, ...] = ()

    @property
    def lossless(self) -> bool:
        """Whether nothing was lost."""
        return not self.losses


@dataclass(slots=True)
class Ledger:
    """Collects the losses of one conversion."""

    losses: list[Loss] = field(default_factory=list[Loss])

    def add(self, path: Path, what: str, why: str) -> None:
        """Write down one loss."""
        self.losses.append(Loss(pointer(path), what, why))

    def extend(self, losses: Iterable[Loss]) -> None:
        """Take over what another conversion lost."""
        self.losses.extend(losses)

    def take(self, place: int, converted: Converted[T]) -> T:
        """One value of a list, with what was lost on the way to it."""
        self.extend(loss.below(place) for loss in converted.losses)
        return converted.value

    def close(self, value: T) -> Converted[T]:
        """The value with everything that was lost on the way to it."""
        return Converted(value, tuple(self.losses))


def pointer(path: Path) -> str:
    """The path as a JSON Pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
