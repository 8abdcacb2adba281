"""Questions to the person at the terminal; where nobody sits, nothing waits for an answer."""

from __future__ import annotations

import sys

from trunkline.cli.output import say


def can_ask() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


def agrees(question: str) -> bool:
    """Whether the person says yes."""
    return (ask(f"{question} [y/N] ") or "").lower() in ("y", "yes")


def ask(question: str) -> str | None:
    """What the person types; `None` when the input ends instead, which agrees to nothing."""
    print(question, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        say()
    return answer.strip() if answer else None


def chosen(text: str, count: int) -> list[int] | None:
    """The numbers in an answer such as `all`, `none` or `1,3-5`; `None` when it is no such answer."""
    words = text.lower().replace(",", " ").split()
    if words in ([], ["all"], ["a"]):
        return list(range(1, count + 1))
    if words in (["none"], ["n"], ["no"], ["0"]):
        return []
    found: list[int] = []
    for word in words:
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return None
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or numbers[0] < 1 or numbers[-1] > count:
            return None
        found += [number for number in numbers if number not in found]
    return found
