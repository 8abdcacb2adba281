"""`trunkline list`: which servers are configured. It starts none, and loads nothing that could."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from trunkline.cli.console import counted, print_json, print_lines, print_table, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_to_look_at, hint_to_begin, run
from trunkline.config.options import Config
from trunkline.control.held_files import may_hold


def add_commands(commands: Commands) -> None:
    """Add the command that looks at the configuration alone."""
    listing = commands.add("list", commands.formatted)
    listing.set_defaults(run=_list)


def _list(options: argparse.Namespace) -> int:
    config = config_to_look_at(options)
    held = held_back_in(config)
    rows = [
        {
            "name": spec.name,
            "transport": spec.kind,
            "address": spec.address,
            "enabled": spec.enabled,
            **({"problem": spec.problem} if spec.problem else {}),
            **({"held": held[spec.name]} if spec.name in held else {}),
        }
        for spec in config.servers.values()
    ]
    if options.format == "json":
        print_json({"source": str(config.source or ""), "servers": rows})
    elif options.format == "compact":
        print_lines(spec.name for spec in config.servers.values())
    else:
        from trunkline.clients.secret import shown_command

        cells = [
            [
                spec.name,
                spec.kind,
                "" if spec.enabled else "disabled",
                spec.address if spec.url else shown_command(asdict(spec)),
            ]
            for spec in config.servers.values()
        ]
        print_table(("name", "transport", "", "starts or reaches"), cells)
        where = "There is no configuration yet."
        if config.source:
            where = f"{counted(len(rows), 'server')} in {config.source}."
        elif rows:
            where = "They are there to play with, until you add one of your own: `trunkline add NAME COMMAND`."
        say(f"{where} {hint_to_begin(config)}".rstrip())
        print_held(held)
    return 0


def held_back_in(config: Config) -> dict[str, dict[str, str]]:
    """What is held back of each server, with why, as it was seen last."""
    if not (config.store.url or may_hold(config.home, config.servers)):
        return {}  # whoever could tell more takes long to load
    from trunkline.control.pin_store import held_back
    from trunkline.errors import StoreError

    try:
        return run(lambda: held_back(config.store, config.home, config.servers))
    except StoreError as error:
        say(f"What is held back cannot be known. {error}")
        return {}


def print_held(held: dict[str, dict[str, str]]) -> None:
    """What is held back, and what to do."""
    from trunkline.untrusted import printable

    for server, names in held.items():
        for name, why in names.items():
            say(f"Held back: {printable(name)} of {server}: {printable(why)}.")
        say(f"See trunkline review {server}")
