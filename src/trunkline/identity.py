"""Whose something is: the scope of a call, what exists in it, and the names of servers that have an owner."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rule:
    """What exists for a caller, of all that there is; what it does not say is not narrowed."""

    servers: frozenset[str] | None = None
    """The servers and groups that do, by the names that the caller has for them; `None` for all."""
    tools: tuple[str, ...] = ()
    """Patterns of the tools that do; without one, all."""
    read_only: bool = False
    """Of tools, those that are known to change nothing."""
    hidden: frozenset[str] = frozenset()
    """Servers and groups that do not, whatever else is said."""


@dataclass(frozen=True)
class Overrides:
    """What a thread does otherwise than its user; what it does not say is as it is there."""

    search_strategy: str = ""
    disable_tool_search: bool = False
    """Tools are listed, never searched for."""
    disable_programmatic_calling: bool = False
    """No programs over tools."""
    timeout: float = 0.0
    """Seconds that a call may go without a sign of life."""
    limits: tuple[tuple[str, float], ...] = ()
    """What the thread may use, by the names of `[limits]`."""
    expose: str = ""
    """How tools are shown, in the words of `[gateway] expose`; empty as the profile has it."""


NO_OVERRIDES = Overrides()


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose call it is: made once, at the edge; what keeps one caller's things from another's goes by this alone."""

    app: str = "default"
    user: str = ""
    joined: int = 0
    """When the user was taken in, where that is known: who is given the name of somebody gone is somebody else."""
    thread: str = ""
    session: str = ""
    """The caller's session, where it has one: connections on which it may be asked belong to it alone."""
    profile: str = ""
    """The profile whose view the caller has; empty for the one that has everything."""
    key: str = ""
    """The id of the key that let the caller in, where one did."""
    role: str = "admin"
    """What the caller may do besides calling: an `admin` everything, others with their own things."""
    rules: tuple[Rule, ...] = ()
    """What exists for the caller must pass every one."""
    limits: tuple[tuple[str, float], ...] = ()
    """What the user may use, where that is not what `[limits]` says."""
    overrides: Overrides = NO_OVERRIDES
    """What its thread says."""
    program: str = ""
    """The program that calls, by its vendor's name (`code_execution_20250825`); empty for whoever calls directly."""
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        # One scope serves many calls, and each looks up several things by it.
        if not self._hash:
            own = (self.app, self.user, self.joined, self.thread, self.session, self.profile, self.key, self.role)
            whole = hash((*own, self.rules, self.limits, self.overrides, self.program))
            object.__setattr__(self, "_hash", whole or 1)
        return self._hash

    @property
    def person(self) -> str:
        """Whose things are kept: the user, told from all others who ever had the name."""
        return f"{self.user}/{self.joined}" if self.joined else self.user

    @property
    def holder(self) -> str:
        """Who has a place in a queue, or a task: the user, or, where nobody is known, the session; else empty."""
        return f"user {self.person}" if self.user else f"session {self.session}" if self.session else ""


EVERYONE = Scope()


def server_id(owner: str, name: str) -> str:
    """What a server is called among all: a user's own has its owner before its name, which no name may hold."""
    return f"{owner}/{name}" if owner else name


def owner_of(server: str) -> str:
    """The user whose server it is; empty for everybody's."""
    return server.rpartition("/")[0]


def in_words_of(user: str, text: str) -> str:
    """A sentence for a user: their own servers are called there as they called them."""
    return text.replace(f"'{user}/", "'") if user else text


def unit_name(server: str) -> str:
    """The name that callers have for a server or group."""
    return server.rpartition("/")[2]
