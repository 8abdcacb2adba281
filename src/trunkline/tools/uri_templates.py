"""Which resource template an address belongs to, in time linear in the address."""

from __future__ import annotations

import re
from functools import lru_cache

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")


def matches(template: str, uri: str) -> bool:
    """Whether a URI can have come from a template (RFC 6570)."""
    pattern = _pattern(template)
    return pattern is not None and pattern.fullmatch(uri) is not None


@lru_cache(maxsize=4096)
def _pattern(template: str) -> re.Pattern[str] | None:
    if len(template) > 2000 or len(_EXPRESSION.findall(template)) > 20:
        return None
    parts: list[str] = []
    at = 0
    for found in _EXPRESSION.finditer(template):
        parts.append(re.escape(template[at : found.start()]))
        # Possessive: what a variable took it never gives back, so that no address can make this slow.
        reserved = found[1] in ("+", "#", "?", "&", ";") or found[2].endswith("*")
        follows = template[found.end() : found.end() + 1]
        stop = re.escape(follows) if follows and follows != "{" else ""
        parts.append(f"[^{stop}]*+" if reserved and stop else ".*+" if reserved else f"[^/{stop}]++")
        at = found.end()
    parts.append(re.escape(template[at:]))
    return re.compile("".join(parts), re.DOTALL)
