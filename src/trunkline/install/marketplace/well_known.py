"""The servers that we know ourselves: each with its exact version, what it wants to know, and its real tools."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.server_json import OUR_META, read_entry

FILE = Path(__file__).with_name("catalogue.json")
"""Written like an answer of a registry, and read by the same code."""
SOURCE = "built-in"


def get_all_well_known_servers() -> tuple[RegistryEntry, ...]:
    """The built-in entries, the most useful first."""
    return tuple(_catalogue().values())


def get_well_known_server(id: str) -> RegistryEntry | None:
    """The built-in entry of that id, if there is one."""
    known = _catalogue()
    return known.get(id) or known.get(_aliases().get(id, ""))


@cache
def _catalogue() -> dict[str, RegistryEntry]:
    found = [read_entry(item, source=SOURCE, ours=True) for item in _items()]
    return {entry.id: entry for entry in found}


@cache
def _aliases() -> dict[str, str]:
    """Names under which people look for a server as well."""
    return {alias: said["id"] for item in _items() for said in [item["_meta"][OUR_META]] for alias in said["aliases"]}


@cache
def _items() -> list[dict[str, Any]]:
    return json.loads(FILE.read_bytes())["servers"]
