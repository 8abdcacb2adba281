"""Why a program failed, in words from which the next attempt is written: the line, and what to write instead."""

from __future__ import annotations

import re
from typing import Any

from trunkline.config.programs import ProgramsSection
from trunkline.errors import ProgramError

_LONGEST = 2000

_INSTEAD: tuple[tuple[str, str], ...] = (
    (r"yield", "Build a list and return it."),
    (r"'del' statement", "Use .pop(), or assign None."),
    (r"class inheritance|metaclasses", "Use functions, plain classes without bases, or dicts; raise ValueError."),
    (r"async context managers|async with", "Call the tool and await it; there is nothing to enter."),
    (r"async for|asynchronous comprehension|async comprehension", "Gather into a list, then use a plain for."),
    (r"except\*|exception groups", "Catch inside each coroutine with a plain except."),
    (r"decorator", "Call the function on the other in a plain statement."),
    (r"gather\(\) does not yet support keyword", "Catch inside each coroutine: async def one(x): try: ... except ..."),
    (r"no attribute 'create_task'|no attribute 'as_completed'|no attribute 'wait'|no attribute 'TaskGroup'",
     "Use await asyncio.gather(f(...), g(...))."),
    (r"no attribute '(wait_for|timeout)'", "Tools have deadlines of their own: just await them."),
    (r"'coroutine' object", "A tool's result has to be awaited: x = await tool(...)."),
    (r"No module named 'statistics'", "Compute it: sum(xs) / len(xs), sorted(xs)[len(xs) // 2]."),
    (r"No module named 'string'", 'Write the letters out: "abcdefghijklmnopqrstuvwxyz".'),
    (r"No module named '(urllib|requests|httpx|aiohttp|socket)", "There is no network: call a tool."),
    (r"No module named '(heapq|operator)", "Use sorted(xs, key=lambda x: ...)."),
    (r"No module named '(enum|fractions|uuid|io|textwrap|pathlib|subprocess|shutil|tempfile|os\.path)",
     "It is not there. Use plain texts, dicts and tools."),
    (r"No module named",
     "There are json, re, datetime, collections, itertools, functools, math, csv, hashlib, base64, random, decimal."),
    (r"PermissionError: Permission denied|is not supported in this environment",
     "There are no files and no environment: call a tool."),
    (r"suspension limit", "It stopped too often to wait: sleep longer rather than often, and gather calls."),
    (r"repl.* callable|sub.*callable", "Use re.finditer and join the pieces."),
    (r"unbound method|sorted\(key=", "Use a lambda: key=lambda s: s.lower()."),
)  # fmt: skip
"""What is missing in the language, and what does the same; the first that fits is said."""


def program_error(error: Any, config: ProgramsSection) -> ProgramError:
    """What the interpreter says of a program, as ours."""
    from pydantic_monty import MontyCrashedError, MontySyntaxError, MontyTypingError

    if isinstance(error, MontyCrashedError):
        if error.timed_out:
            return ProgramError(f"It computed for more than {config.compute:g} s, and was ended.", hint=_LESS)
        return ProgramError("Its sandbox was ended.", hint="It may have used too much at once; do it in smaller steps.")
    if isinstance(error, MontyTypingError):
        return ProgramError(f"Its types do not fit:\n{error.display()[:_LONGEST]}", hint="Nothing of it was run.")
    if not hasattr(error, "exception"):
        return ProgramError("Its sandbox was ended.", hint="Run it again.")
    text = str(error)[:_LONGEST]  # `exception()` would be one more copy of what may be many megabytes
    frames: list[Any] = error.traceback() if hasattr(error, "traceback") else []
    line = int(frames[-1].line) if frames else 0
    if isinstance(error, MontySyntaxError) and not text.startswith("SyntaxError"):
        text = f"SyntaxError: {text}"
    kind = text.partition(":")[0]
    hint = _hint(kind, text, config)
    text = text if text.endswith((".", "!", "?")) else f"{text}."
    return ProgramError(f"Line {line}: {text}" if line else text, line=line, hint=hint)


def _hint(kind: str, text: str, config: ProgramsSection) -> str:
    if kind == "MemoryError":
        return f"It may hold {config.memory // 2**20} MiB: keep less at a time."
    if kind == "TimeoutError" and "time limit exceeded" in text:
        return _LESS
    return next((instead for pattern, instead in _INSTEAD if re.search(pattern, text)), "")


_LESS = "Compute less, or let a tool do it."
