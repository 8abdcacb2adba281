"""Somebody else's code: handlers, listeners, executors, tools. Whatever it raises is caught here, and nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Raised:
    """What foreign code raised instead of giving an answer."""

    error: Exception


async def attempt(function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T | Raised:
    """Await foreign code; it may raise anything, and its failure is a value here."""
    try:
        return await function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the one place for foreign code that is awaited
        return Raised(error)


def attempt_now(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Raised:
    """Run foreign code; it may raise anything, and its failure is a value here."""
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the one place for foreign code that is not awaited
        return Raised(error)
