"""Typed events: who wants to know says so, and a listener that fails disturbs nobody."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, overload

from trunkline.foreign import Raised, attempt_now

log = logging.getLogger("trunkline")

_CAPITAL = re.compile("(?<!^)(?=[A-Z])")


class Event:
    """What happened: each kind is a frozen dataclass of its own."""

    __slots__ = ()
    event: ClassVar[str] = ""
    """The name that listeners may also use: that of the class, unless it says another."""

    def __init_subclass__(cls) -> None:
        if "event" not in cls.__dict__:
            cls.event = _CAPITAL.sub("_", cls.__name__).lower()


E = TypeVar("E", bound=Event)


class Emitter:
    """Keeps listeners by the kind of event they want; where nobody listens, nothing is made.

    What can be listened to has one, and takes its `on` and `off` for its own.
    """

    def __init__(self, *kinds: type[Event]) -> None:
        self._names = {kind.event: kind for kind in kinds}
        self._listeners: dict[type[Event], list[Callable[[Any], object]]] = {}

    @overload
    def on(self, event: type[E], listener: Callable[[E], object]) -> Callable[[], None]: ...
    @overload
    def on(self, event: str, listener: Callable[[Any], object]) -> Callable[[], None]: ...
    def on(self, event: type[Event] | str, listener: Callable[[Any], object]) -> Callable[[], None]:
        """Hear of an event, named by its class or its name; call what is returned to stop."""
        kind = self._kind(event)
        self._listeners.setdefault(kind, []).append(listener)
        return lambda: self._drop(kind, listener)

    def off(self, event: type[Event] | str, listener: Callable[[Any], object]) -> None:
        """Hear of it no longer."""
        self._drop(self._kind(event), listener)

    def hears(self, kind: type[Event]) -> bool:
        """Whether anybody listens: ask before making an event on a hot path."""
        return kind in self._listeners

    def emit(self, event: Event) -> None:
        """Tell every listener, in the order they came."""
        for listener in tuple(self._listeners.get(type(event), ())):
            outcome = attempt_now(listener, event)
            if isinstance(outcome, Raised):  # a call must not end by it
                log.error("A listener to %s failed.", event.event, exc_info=outcome.error)

    def _kind(self, event: type[Event] | str) -> type[Event]:
        if not isinstance(event, str):
            return event
        if event not in self._names:
            raise ValueError(f"There is no event {event!r}; there are: {', '.join(sorted(self._names))}.")
        return self._names[event]

    def _drop(self, kind: type[Event], listener: Callable[[Any], object]) -> None:
        listeners = self._listeners.get(kind, [])
        if listener in listeners:
            listeners.remove(listener)
        if not listeners:
            self._listeners.pop(kind, None)
