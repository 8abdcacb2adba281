"""What a tool's arguments say it does: actions to choose from, code to run, files to save to, consent to give."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from trunkline.tools.infer_name import split_name
from trunkline.tools.verbs import BASE, READS, UNCLEAR, VERBS, Effect

_KINDS = {
    name: kind
    for kind, names in {
        "address": "domain uri url urls webpage website",
        "maybe code": "code expression function query source",
        "code": "cmd command cypher javascript js mutation script shell sql statement",
        "action": "action httpmethod method mode op operation subcommand verb",
        "consent": "confirm confirmation confirmdelete confirmdeletion confirmed",
        "doubt": "dryrun ifmatch overwrite",
    }.items()
    for name in names.split()
}
_LANGUAGES = ("sql", "graphql", "cypher", "javascript", "python", "shell")
_PLACES = ("path", "file", "filename", "dir", "directory", "output", "folder")


class SchemaSign(NamedTuple):
    """What the arguments say."""

    effect: Effect = READS
    """The worst action that can be chosen."""
    word: str = ""
    code: str = ""
    """An argument that can say anything."""
    consent: str = ""
    """An argument by which a person agrees."""
    doubt: str = ""
    """An argument that a tool which only reads would hardly have."""
    address: bool = False
    """It takes an address on the network."""


NO_SCHEMA = SchemaSign()


def read_schema(schema: Mapping[str, Any] | None) -> SchemaSign:
    """Look at the names, choices and descriptions of the arguments."""
    properties: Any = schema.get("properties") if schema else None
    if not isinstance(properties, Mapping):
        return NO_SCHEMA
    sign = NO_SCHEMA
    for name, value in cast(Mapping[str, Any], properties).items():
        kind = _kind(name)
        if not kind:
            continue
        about = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        if kind in ("action", "code") and "enum" in about:
            if "filter" not in _text(about):
                sign = _chosen(sign, about["enum"])
        elif kind == "code" or (kind == "maybe code" and any(word in _text(about) for word in _LANGUAGES)):
            sign = sign._replace(code=name)
        elif kind == "consent":
            sign = sign._replace(consent=name)
        elif kind == "doubt" or (kind == "place" and _saves(_text(about))):
            sign = sign._replace(doubt=name)
        elif kind == "address":
            sign = sign._replace(address=True)
    return sign


# The same few names stand in the schemas of most tools.
@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    plain = name.lower().replace("_", "").replace("-", "")
    if plain in _KINDS:
        return _KINDS[plain]
    if plain.endswith(_PLACES):
        return "doubt" if plain.startswith(("output", "save", "dest", "download")) else "place"
    return ""


def _text(about: Mapping[str, Any]) -> str:
    return str(about.get("description", ""))[:200].lower()


def _saves(text: str) -> bool:
    return "save" in text or "write" in text


def _chosen(sign: SchemaSign, choices: Any) -> SchemaSign:
    for choice in cast(list[Any], choices) if isinstance(choices, list) else ():
        for word in split_name(choice)[:1] if isinstance(choice, str) else ():
            verb = VERBS.get(word)
            if verb and verb.form is BASE and verb.effect > max(sign.effect, UNCLEAR):
                sign = sign._replace(effect=verb.effect, word=choice)
    return sign
