"""What the commands about other clients begin with: this machine, our own configuration, and the clients named."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from trunkline.cli.open import config_file
from trunkline.clients.client import CLIENTS, Around
from trunkline.clients.connection import gateway_url
from trunkline.config.options import Config
from trunkline.config.reading import load, read_document, user_file
from trunkline.errors import ConfigError

TOKEN = "TRUNKLINE_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class Ours:
    """Our own configuration, as it is in the file and as it is meant."""

    path: Path
    config: Config
    servers: Mapping[str, Mapping[str, Any]]
    """The servers as they are written, variables and all."""
    token: str = ""
    """The environment variable of the gateway's token; empty when there is no token."""

    @property
    def urls(self) -> list[str]:
        """Where the gateway is."""
        try:
            return [gateway_url(self.config.gateway)]
        except ConfigError:
            return []


def here() -> Around:
    """This machine, this user, this folder."""
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE") or "~"
    return Around(Path(home).expanduser(), Path.cwd(), os.environ, sys.platform)


def ours(options: argparse.Namespace) -> Ours:
    """The file that was named or is found; without any, the one that will be made."""
    path = config_file(options)
    if path is None or not path.exists():
        made = path or user_file(os.environ)
        config = load(None, env=os.environ)
        return Ours(made, config, {}, TOKEN if config.gateway.token else "")
    document = read_document(path)
    config = load(path, env=os.environ)
    return Ours(path, config, _tables(document.get("servers")), _token(document, config))


def check_clients(names: Iterable[str]) -> list[str]:
    """The clients by name, or all of them."""
    chosen = list(names)
    for name in chosen:
        if name not in CLIENTS:
            close = difflib.get_close_matches(name, list(CLIENTS), 1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known are: {', '.join(CLIENTS)}."
            raise ConfigError(f"There is no client {name!r}.", hint=hint)
    return chosen or list(CLIENTS)


def _token(document: Mapping[str, Any], config: Config) -> str:
    if not config.gateway.token and not config.gateway.users:
        return ""
    written = _tables({"gateway": document.get("gateway")}).get("gateway", {}).get("token", "")
    found = re.fullmatch(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}", str(written))
    return found[1] if found else TOKEN


def _tables(value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        return {}
    tables = cast("dict[str, Any]", value)
    return {name: cast("dict[str, Any]", table) for name, table in tables.items() if isinstance(table, dict)}
