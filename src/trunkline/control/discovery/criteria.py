"""What can be asked of the catalogue, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from trunkline.control.discovery.tool_info import EnhancedToolInfo
from trunkline.errors import ConfigError
from trunkline.tool import UNKNOWN, Annotations, Safety

SortBy = Literal["name", "calls", "success_rate", "avg_execution_time", "relevance"]
SortDirection = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True)
class ToolSearchCriteria:
    """Which tools, in which order; a tool must meet every criterion that is set."""

    name: str = ""
    """Part of the tool's name; the case of letters does not count."""
    description: str = ""
    """Words of which the description has at least one, or a part of one."""
    server_ids: Sequence[str] = ()
    """Servers, or groups, of which one offers it."""
    category: str = ""
    tags: Sequence[str] = ()
    """Tags of which it has at least one."""
    annotations: Annotations = UNKNOWN
    """Hints that it must have exactly; of tags, at least one."""
    safety: Safety | None = None
    query: str = ""
    """What the tool should do, in one's own words: ranks by fit, and leaves out what does not fit."""
    include_unavailable: bool = False
    """Whether tools count whose server cannot be reached."""
    sort_by: SortBy | None = None
    """Without it: by relevance where there is a query, else by name."""
    sort_direction: SortDirection | None = None
    """Without it: `asc`; relevance begins with the best."""
    limit: int = 0
    """Tools at most; 0 sets no bound."""
    offset: int = 0
    """How many are passed over."""

    def __post_init__(self) -> None:
        if self.sort_by is not None and self.sort_by not in get_args(SortBy):
            raise _unusable("sort_by", f"it is one of {', '.join(get_args(SortBy))}")
        if self.sort_direction not in (None, *get_args(SortDirection)):
            raise _unusable("sort_direction", "it is asc or desc")
        if self.sort_by == "relevance" and not self.query.strip():
            raise _unusable("sort_by", "relevance wants a `query`")
        if self.safety is not None and self.safety not in get_args(Safety):
            raise _unusable("safety", f"it is one of {', '.join(get_args(Safety))}")
        if self.limit < 0 or self.offset < 0:
            raise _unusable("limit", "it and `offset` are 0 or more")
        for option in ("server_ids", "tags"):
            value = getattr(self, option)
            if isinstance(value, str):
                raise _unusable(option, "it is a list, not a text")
            object.__setattr__(self, option, tuple(value))


EVERYTHING = ToolSearchCriteria()


@dataclass(frozen=True, slots=True)
class ToolSearchResult:
    """The tools that were found."""

    tools: tuple[EnhancedToolInfo, ...]
    total_count: int
    """How many there are without `limit` and `offset`."""
    criteria: ToolSearchCriteria
    execution_time: float
    """Seconds it took to find them."""
    scores: tuple[float, ...] = ()
    """With a query: how well each tool fits, 0 to 1."""


def _unusable(option: str, rule: str) -> ConfigError:
    return ConfigError(f"The criterion {option!r} is not usable.", hint=f"Note that {rule}.")
