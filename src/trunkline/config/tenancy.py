"""Options about people: what each may use, where what is theirs is kept, and what servers they are offered."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LimitsSection:
    """`[limits]`: what each user may use, unless something else is said of the user or the thread; 0 sets no limit."""

    calls_per_minute: float = 0.0
    """Calls in a minute."""
    calls_per_hour: float = 0.0
    """Calls in an hour."""
    key_calls_per_minute: float = 0.0
    """Calls in a minute with one key."""
    tokens_per_day: float = 0.0
    """Tokens of answers in a day, as they are estimated."""
    cost_per_day: float = 0.0
    """Sum of the `cost_hint` of the tools that are called in a day."""
    alert_at: float = 0.8
    """Share of a limit after which an event tells that it is nearly reached."""
    running_calls: int = 0
    """Calls that may run at once."""
    running_per_server: int = 4
    """Calls that one server works on at once for one user while others use it too; what is more waits for its turn."""
    connections: int = 100
    """Connections at once, to servers of the user's own and such as nobody else shares; idle ones make room."""
    servers: int = 100
    """Servers that a user may register."""
    servers_per_thread: int = 0
    """Servers that a thread may choose."""


@dataclass(frozen=True)
class StoreConfig:
    """`[store]`: where people, their keys, servers and threads are kept. Nothing is made before somebody is added."""

    url: str = field(default="", repr=False)
    """`sqlite:///path`, or `postgresql://user@host/database` for several machines; default is a file in the home."""
    key: str = field(default="", repr=False)
    """The master key, 64 hex digits, or `keyring`; default is `TRUNKLINE_MASTER_KEY`, else `seal.key` in the home."""
    key_command: str = field(default="", repr=False)
    """A command that prints the master key, such as `pass show trunkline`; it is run without a shell."""


@dataclass(frozen=True)
class DiscoverySection:
    """`[discovery]`: a service that lists servers to register. Nothing of it is registered, or started, unasked."""

    url: str = ""
    """Its address, `https` or on this machine: a list of services, or an object with `services`."""
    token: str = field(default="", repr=False)
    """Bearer token that it wants. Write `${env:NAME}` or `${secret:NAME}` to keep it out of the file."""
    timeout: float = 10.0
    """Seconds that it has to answer."""
