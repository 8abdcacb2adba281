"""Which entry of the built-in catalogue a configured server comes from, and so what kind of server it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trunkline.config.options import ServerSpec
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.server_json import get_all_well_known_servers


def entry_of(spec: ServerSpec) -> RegistryEntry | None:
    """The entry that a server was installed from, or might have been; `None` for one that we do not know."""
    words = (spec.command, *spec.args)
    return next((entry for entry in get_all_well_known_servers() if is_from(entry, words, spec.url)), None)


def is_from(entry: RegistryEntry, words: Sequence[str], url: str) -> bool:
    """Whether a command or an address is that of an entry, in whatever version."""
    if entry.url and url == entry.url:
        return True
    packages = [package for package in (entry.npm_package, entry.pypi_package) if package]
    return any(re.fullmatch(re.escape(package) + r"([@=\[~<>!].*)?", word) for package in packages for word in words)
