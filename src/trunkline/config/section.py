"""One section of the configuration, from the values of a table: its types, its ranges, and the variables in it."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import msgspec

from trunkline.config.edge import check_web
from trunkline.config.oauth import OAuthSpec
from trunkline.config.options import HIDDEN_FIELDS, SECTIONS
from trunkline.config.programs import ProgramsSection, check_programs
from trunkline.errors import ConfigError


def section_of(section: type[Any], values: Mapping[str, Any], where: str) -> Any:
    """A section of these values; ConfigError says which is not known, of another type, or out of range."""
    names = [f.name for f in dataclasses.fields(section) if f.name not in HIDDEN_FIELDS]
    refuse_unknown(values, names, where)
    try:
        return _in_range(msgspec.convert(dict(values), section), where)
    except msgspec.ValidationError as error:
        text = str(error).replace(" - at `$.", f" (at `{where}.")
        choices = _choices(section, str(error))
        hint = f"Write one of {', '.join(choices)}." if choices else ""
        raise ConfigError(f"{where}: {text}{')' if '(at' in text else ''}.", hint=hint) from error


def _choices(section: type[Any], error: str) -> list[str]:
    """What an option may be that was given something else, where that is one of a few."""
    found = re.search(r"Invalid enum value .* - at `\$\.(\w+)", error)
    if found is None:
        return []
    kind = get_type_hints(section).get(found[1])
    literals = [kind, *get_args(kind)]
    return [
        repr(value) for literal in literals if get_origin(literal) is Literal for value in get_args(literal) if value
    ]


_MORE_THAN_0 = frozenset((
    "gateway.question_timeout", "cache.max_size", "results.ttl", "results.preview_tokens", "router.affinity_ttl",
    "router.eject_seconds", "router.eject_error_rate", "batcher.max_wait", "edge.timeout", "middleware.confirm_timeout",
    "search.limit", "search.budget",
))  # fmt: skip
_SHARES = frozenset(
    ("limits.alert_at", "traces.sample_ratio", "router.retry_ratio", "router.eject_error_rate", "search.min_score")
)


def _in_range(section: Any, where: str) -> Any:
    """The section, if its numbers make sense: none is less than 0."""
    for option in dataclasses.fields(section):
        name, value = f"{where}.{option.name}", getattr(section, option.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not value >= 0:
            raise ConfigError(f"{name} must be 0 or more.")
        if value == 0 and name in _MORE_THAN_0:
            raise ConfigError(f"{name} must be more than 0.")
        if value > 1 and name in _SHARES:
            raise ConfigError(f"{name} must be at most 1.")
    check_web(section, where)
    if isinstance(section, ProgramsSection):
        check_programs(section)
    return section


def override(section: Any, where: str, env: Mapping[str, str], flags: Mapping[str, Any]) -> Any:
    """The section with what flags say, and else the environment."""
    values: dict[str, Any] = {}
    for option in dataclasses.fields(section):
        variable = f"TRUNKLINE_{where}_{option.name}".upper()
        value = flags.get(f"{where}.{option.name}", env.get(variable))
        if value is None:
            continue
        if str(option.type).startswith("tuple") and isinstance(value, str):
            value = tuple(part for part in value.split(",") if part)
        values[option.name] = value
    if not values:
        return section
    try:
        return _in_range(msgspec.convert(dataclasses.asdict(section) | values, SECTIONS[where], strict=False), where)
    except msgspec.ValidationError as error:
        choices = _choices(SECTIONS[where], str(error))
        hint = f"Write one of {', '.join(choices)}." if choices else ""
        raise ConfigError(f"{where}: {error}.", hint=hint) from error


def refuse_unknown(values: Mapping[str, Any], known: Any, where: str) -> None:
    """ConfigError for a key that there is no option for; it says which was meant."""
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, list(known), 1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known are: {', '.join(known)}."
            raise ConfigError(f"{where} has no option {key!r}.", hint=hint)


def table(value: Any, where: str) -> dict[str, Any]:
    """A value that must be a table."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table of keys and values.")
    return cast("dict[str, Any]", value)


_VARIABLE = re.compile(
    r"\$\{(?:(?:env:)?([A-Za-z_][A-Za-z0-9_]*)|secrets?:([A-Za-z0-9_][A-Za-z0-9_.-]*))(?::-([^}]*))?\}"
)


_AS_WRITTEN = ("tools", "minimal_tools")
"""Options that are told to callers: a variable in them would be, too."""


def expanded(section: Any, env: Mapping[str, str]) -> tuple[Any, str]:
    """Put values in the place of `${env:NAME}` and `${secret:NAME}`, and say which are missing."""
    missing: list[str] = []
    problems: list[str] = []
    hidden = False

    def expand(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(replace, value)
        if isinstance(value, tuple):
            return tuple(expand(item) for item in cast("tuple[Any, ...]", value))
        if isinstance(value, OAuthSpec):
            return all_expanded(value)
        if isinstance(value, dict):
            return {key: expand(item) for key, item in cast("dict[str, Any]", value).items()}
        return value

    def replace(found: re.Match[str]) -> str:
        if found[2]:
            return secret(found[2], found[3])
        value = env.get(found[1]) if found[1] in env else found[3]
        if not isinstance(value, str):
            missing.append(found[1])
            return ""
        return value

    def secret(name: str, default: str | None) -> str:
        from trunkline.config.secrets import look_up  # most files name none, and commands need not wait for it

        # What is never printed may hold a secret; arguments and addresses can be read by others.
        value, problem = look_up(name, env) if hidden else ("", f"the secret {name} does not belong in `{field.name}`.")
        value = default if value is None else value
        if value is None:
            problem = f"the secret {name} is not set. Run `trunkline secret set {name}`."
        problems.extend([problem] if problem else [])
        return value or ""

    def all_expanded(section: Any) -> Any:
        nonlocal field, hidden
        changed: dict[str, Any] = {}
        for one in dataclasses.fields(section):
            field, hidden = one, not one.repr
            if one.name not in _AS_WRITTEN:
                changed[one.name] = expand(getattr(section, one.name))
        return dataclasses.replace(section, **changed)

    field = dataclasses.fields(section)[0]
    made = all_expanded(section)
    if missing:
        problems.insert(0, f"the environment variable {', '.join(sorted(set(missing)))} is not set.")
    return made, " ".join(dict.fromkeys(problems))
