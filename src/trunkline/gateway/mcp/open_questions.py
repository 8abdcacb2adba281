"""Questions that wait for a person at this moment, whichever way their caller came, and how they are answered."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trunkline.model import Answer, Call, Question

PERSONAL = "elicitation/create"
"""What a person answers; other questions are for the caller itself."""


@dataclass(frozen=True)
class OpenQuestion:
    """One question of a call that waits."""

    id: str
    call: Call
    server: str
    question: Question
    until: float
    """When its time is up, in seconds since the epoch."""
    answer: Callable[[Answer], str] = field(repr=False)
    """Takes the answer; says why it does not fit, and then the question stays open."""
    since: float = field(default_factory=time.time)


class OpenQuestions:
    """All of them. Whoever answers first has answered: for anybody else the question is no longer there."""

    def __init__(self) -> None:
        self._open: dict[str, OpenQuestion] = {}
        self.listeners: list[Callable[[str, OpenQuestion], None]] = []
        """Told of each question that is asked (`asked`), or waits no longer (`ended`)."""

    def add(self, call: Call, server: str, question: Question, seconds: float, answer: Callable[[Answer], str]) -> str:
        """Note a question, and give the id by which it is known; empty for one that no person answers."""
        if question.method != PERSONAL:
            return ""
        made = OpenQuestion(secrets.token_urlsafe(16), call, server, question, time.time() + seconds, answer)
        self._open[made.id] = made
        self._tell("asked", made)
        return made.id

    def remove(self, id: str) -> None:
        """It was answered, or will never be."""
        found = self._open.pop(id, None)
        if found is not None:
            self._tell("ended", found)

    def get(self, id: str) -> OpenQuestion | None:
        """One that still waits."""
        return self._open.get(id)

    def of(self, person: str) -> list[OpenQuestion]:
        """Those of somebody's calls, the oldest first."""
        return [one for one in self._open.values() if one.call.scope.person == person]

    def _tell(self, what: str, one: OpenQuestion) -> None:
        for listener in self.listeners:
            listener(what, one)
