"""Options of programs over tools: what each may use, and what is put around the processes that run them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from trunkline.errors import ConfigError

Isolation = Literal["auto", "bubblewrap", "process"]


@dataclass(frozen=True)
class ProgramsSection:
    """`[programs]`: what models write over tools, run by `run_code` in a sandbox; needs `trunkline[programs]`."""

    enabled: bool = True
    """`false` runs none, for anybody."""
    isolation: Isolation = "auto"
    """What is around each worker: `bubblewrap`, a bare `process`, or (`auto`) bubblewrap where it works."""
    processes: int = 0
    """Workers that run at once; 0 has as many as there are cores. Whoever waits for tools or people needs none."""
    runs_per_worker: int = 50
    """Programs that one worker runs, one after the other, before another takes its place."""
    compute: float = 5.0
    """Seconds that a program may compute; waiting for tools does not count."""
    timeout: float = 300.0
    """Seconds that it may take with its tools; the time in which a person is asked does not count."""
    memory: int = 64 * 2**20
    """Bytes that it may hold."""
    calls: int = 200
    """Calls of tools that it may make."""
    code: int = 128 * 2**10
    """Bytes that its text may have."""
    arguments: int = 4 * 2**20
    """Bytes of arguments that its calls may have at a time, as JSON."""
    printed: int = 64 * 2**10
    """Bytes that it may print."""
    value: int = 2**20
    """Bytes that its value may have, as JSON."""
    running_per_user: int = 8
    """Programs of one user that may run at once; further ones are refused."""
    queue: int = 100
    """Programs that may wait for a worker; further ones are refused."""
    waiting_per_user: int = 1000
    """Programs of one user that may wait for a person's answer."""
    keep: float = 86400.0
    """Seconds that a program waits for an answer to a modern caller's question; then it is dropped."""
    state: int = 2**20
    """Bytes that a program may have that waits; a larger one cannot ask, and is refused what it wanted to do."""
    type_check: bool = False
    """Check the types of each program against its tools before it runs; takes some 0.1 seconds."""


SMALLEST_MEMORY = 2**20
LARGEST = 2**40
_MAY_BE_0 = ("processes", "runs_per_worker", "printed", "queue")
"""Where 0 is a choice; anywhere else it would let no program do anything."""


def check_programs(section: ProgramsSection) -> None:
    """Refuse numbers with which no program could run, or that bound nothing."""
    for option in dataclasses.fields(section):
        value = getattr(section, option.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        hint = f"Leave it out to have {option.default!s}, or set `enabled = false` to have no programs."
        if value == 0 and option.name not in _MAY_BE_0:
            raise ConfigError(f"programs.{option.name} must be more than 0.", hint=hint)
        if value > LARGEST:
            raise ConfigError(f"programs.{option.name} must be less than {LARGEST:g}.", hint=hint)
        if option.name == "memory" and value < SMALLEST_MEMORY:
            raise ConfigError(f"programs.memory must be {SMALLEST_MEMORY} or more: it is in bytes.", hint=hint)
