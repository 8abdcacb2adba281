"""The names of tools: what each format allows, how a name is made to fit, and how two are kept apart."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_DIGEST = 8


@dataclass(frozen=True, slots=True)
class NameRule:
    """Which names a format takes."""

    format: str
    letters: str
    """The letters allowed, as the inside of a regular expression's brackets."""
    longest: int
    first: str = ""
    """The letters allowed at the beginning, where they are fewer."""

    def allows(self, name: str) -> bool:
        """Whether the name can stay as it is."""
        return (
            re.fullmatch(rf"(?=[{self.first or self.letters}])[{self.letters}]{{1,{self.longest}}}", name) is not None
        )


MCP = NameRule("MCP", r"a-zA-Z0-9_.\-", 128)
ANTHROPIC = NameRule("Anthropic", r"a-zA-Z0-9_\-", 64)
OPENAI = NameRule("OpenAI", r"a-zA-Z0-9_\-", 64)
GEMINI = NameRule("Gemini", r"a-zA-Z0-9_\-", 64, first="a-zA-Z_")
PORTABLE = NameRule("every format", r"a-zA-Z0-9_\-", 64, first="a-zA-Z_")


class NameCheck(NamedTuple):
    """Whether a name is valid, and one sentence for each thing that is wrong with it."""

    valid: bool
    errors: tuple[str, ...]


def validate_tool_name(name: str, *, rule: NameRule = MCP) -> NameCheck:
    """Check a name against what a format allows; MCP's own rule unless another is given."""
    errors: list[str] = []
    if not name:
        errors.append("A tool needs a name.")
    if len(name) > rule.longest:
        errors.append(f"The name has {len(name)} letters; {rule.format} takes {rule.longest}.")
    strange = sorted(set(re.sub(f"[{rule.letters}]", "", name)))
    if strange:
        errors.append(f"{rule.format} takes no {', '.join(map(repr, strange))} in a name.")
    if name and not strange and rule.first and not re.match(f"[{rule.first}]", name):
        errors.append(f"For {rule.format} a name begins with a letter or an underscore.")
    return NameCheck(not errors, tuple(errors))


def sanitize_tool_name(name: str, *, rule: NameRule = MCP) -> str:
    """The name itself if it is valid, else one like it that is; two names may become one (see `distinct`)."""
    if rule.allows(name):
        return name
    plain = re.sub(f"[^{rule.letters}]", "_", name)
    if not re.search("[a-zA-Z0-9]", plain):
        return f"tool_{_digest(name)}"
    if rule.first and not re.match(f"[{rule.first}]", plain):
        plain = f"_{plain}"
    return plain if len(plain) <= rule.longest else _signed(plain, name, rule)


def distinct(
    wanted: Sequence[str], given: Sequence[str], servers: Sequence[str] = (), *, rule: NameRule = MCP
) -> list[str]:
    """The names wanted, each only once.

    Of several that want one name, the only one that was given that very name keeps it. The others get a hash of
    their server and of what they were given, so that the result does not depend on their order.
    """
    claims: dict[str, list[int]] = {}
    for place, name in enumerate(wanted):
        claims.setdefault(name, []).append(place)
    result = list(wanted)
    taken = set(claims)
    for name, places in claims.items():
        named = [place for place in places if given[place] == name]
        keeper = named[0] if len(named) == 1 else -1
        for place in places if len(places) > 1 else ():
            if place != keeper:
                source = f"{servers[place]}\0{given[place]}" if servers else given[place]
                result[place] = _free(name, source, taken, rule)
                taken.add(result[place])
    return result


def with_prefix(prefix: str, name: str) -> str:
    """`prefix_name`; a prefix that ends with an underscore is taken as it is."""
    return f"{_joint(prefix)}{name}" if prefix else name


def without_prefix(prefix: str, name: str) -> str:
    """The name that was prefixed; a name without the prefix stays."""
    rest = name.removeprefix(_joint(prefix)) if prefix else name
    return rest or name


def collisions(names: Iterable[str], *, rule: NameRule = MCP) -> dict[str, tuple[str, ...]]:
    """The sanitised names that several of the given names would get, with those who want them."""
    claims: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        claims.setdefault(sanitize_tool_name(name, rule=rule), []).append(name)
    return {shown: tuple(wanting) for shown, wanting in claims.items() if len(wanting) > 1}


def _joint(prefix: str) -> str:
    return prefix if prefix.endswith("_") else f"{prefix}_"


def _free(name: str, source: str, taken: set[str], rule: NameRule) -> str:
    # Twins with the same source differ in nothing but their turn, so the turn is hashed in.
    turn = 0
    while (signed := _signed(name, f"{source}\0{turn}" if turn else source, rule)) in taken:
        turn += 1
    return signed


def _signed(name: str, source: str, rule: NameRule) -> str:
    return f"{name[: rule.longest - _DIGEST - 1]}_{_digest(source)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
