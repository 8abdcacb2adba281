"""What a server of one's own says of itself, and how it behaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from trunkline.errors import ConfigError
from trunkline.tool import UNKNOWN, Annotations
from trunkline.tools.annotations import validate_annotations

Transport = Literal["stdio", "http"]


@dataclass(frozen=True, slots=True)
class MCPServerBaseConfig:
    """The options of a server."""

    id: str
    """A short name without blanks; in a hub its tools are shown under it."""
    name: str = ""
    """A name for people; default is the id."""
    description: str = ""
    """What it is for; callers get it as instructions."""
    version: str = "1.0.0"
    category: str = "custom"
    """Category of tools that say none of their own."""
    transport: Transport = "stdio"
    """How `run()` serves unless it is told."""
    default_timeout: float = 30.0
    """Seconds that a tool, a prompt or a reader may take; waiting for a person does not count."""
    default_annotations: Annotations = UNKNOWN
    """How its tools behave where neither they nor their words say so."""
    question_timeout: float = 600.0
    """Seconds a person has to answer."""
    max_waiting: int = field(default=1000)
    """Calls that may wait for an answer at once."""

    def __post_init__(self) -> None:
        if not self.id or self.id.split() != [self.id] or len(self.id) > 64 or "/" in self.id or "\\" in self.id:
            raise ConfigError(f"A server's `id` cannot be {self.id!r}.", hint="Use 1 to 64 letters, digits or dashes.")
        if not self.name:
            object.__setattr__(self, "name", self.id)
        if not self.version:
            raise ConfigError(f"Server {self.id!r} has no version.", hint='Give it a `version` such as "1.0.0".')
        if self.transport not in get_args(Transport):
            raise ConfigError(
                f"Server {self.id!r} cannot be served by {self.transport!r}.",
                hint=f"Take one of {', '.join(get_args(Transport))}.",
            )
        for option in ("default_timeout", "question_timeout", "max_waiting"):
            if not 0 < getattr(self, option) < math.inf:
                raise ConfigError(
                    f"Server {self.id!r} needs a `{option}` above 0.", hint="Leave it out for the default."
                )
        for problem in validate_annotations(self.default_annotations):
            raise ConfigError(f"The default annotations of server {self.id!r} are wrong: {problem}")
