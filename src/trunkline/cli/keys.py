"""`trunkline keys`: the keys that secrets are sealed with, and new ones in their place."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from trunkline.cli.admin import config_of, with_store
from trunkline.cli.console import counted, print_json, say
from trunkline.cli.main import Commands
from trunkline.cli.open import run
from trunkline.config.master_key import MasterKey, key_of
from trunkline.config.options import Config
from trunkline.config.secrets import Secrets
from trunkline.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.tenancy.tenancy import Tenancy

NEW = "TRUNKLINE_NEW_MASTER_KEY"


def add_commands(commands: Commands) -> None:
    """Add the command about keys."""
    keys = commands.add(
        "keys",
        description="Look after the keys that secrets are sealed with: data keys, which seal records, and the master "
        "key, which seals data keys. A running gateway goes on meanwhile. Keys of callers are `trunkline key`.",
    )
    options = with_store(commands)
    actions = keys.add_subparsers(title="actions", metavar="ACTION", required=True)
    status = actions.add_parser("status", parents=[options], help="say where the master key is, and what is sealed")
    status.set_defaults(run=_status)
    rotate = actions.add_parser(
        "rotate", parents=[options], help="seal everything with a new data key, or go on where that was cut short"
    )
    rotate.add_argument(
        "--master",
        action="store_true",
        help=f"with a new master key first; where you keep the key yourself, give the new one in {NEW}",
    )
    rotate.set_defaults(run=_rotate)


def _status(options: argparse.Namespace) -> int:
    config = config_of(options)
    secrets = Secrets(config.home)

    async def look() -> dict[str, Any]:
        from trunkline.storage import credentials as stored
        from trunkline.tenancy.rotation import RUNNING
        from trunkline.tenancy.tenancy import open_tenancy

        async with open_tenancy(config.store, config.home) as tenancy:
            told: dict[str, Any] = {"master": tenancy.master_key.where, "data_keys": 0, "credentials": 0}
            told |= {
                "rotating": False,
                "left": 0,
                "secrets": secrets.sealed,
                "secrets_master": secrets.master_key.where,
            }
            if tenancy.is_open:
                store = await tenancy.store()
                kids = [one.kid for one in await stored.data_keys(store) if one.created]
                told["data_keys"], told["credentials"] = len(set(kids)), len(await stored.names(store))
                told["rotating"] = bool(await stored.setting(store, RUNNING))
                told["left"] = await stored.count_otherwise(store, kids[0]) if told["rotating"] else 0
            return told

    told = run(look)
    if options.format == "json":
        print_json(told)
        return 0
    print(f"master key: {told['master']}")
    print(f"    {counted(told['credentials'], 'credential')} in the store, {counted(told['data_keys'], 'data key')}")
    if told["rotating"]:
        print(f"    a rotation was not finished, {told['left']} left: trunkline keys rotate")
    elsewhere = f", master key: {told['secrets_master']}" if told["secrets_master"] != told["master"] else ""
    print(f"    {counted(told['secrets'], 'secret')} in {secrets.file}{elsewhere}")
    return 0


def _rotate(options: argparse.Namespace) -> int:
    config = config_of(options)

    async def turn() -> dict[str, Any]:
        from trunkline.tenancy.tenancy import open_tenancy

        async with open_tenancy(config.store, config.home) as tenancy:
            return await rotate_keys(tenancy, config, master=options.master)

    told = run(turn)
    if options.format == "json":
        print_json(told)
    else:
        _tell(told)
    return 1 if told["refused"] else 0


async def rotate_keys(tenancy: Tenancy, config: Config, *, master: bool) -> dict[str, Any]:
    """New data keys for the store and for the file of secrets, after a new master key if that is wanted."""
    secrets = Secrets(config.home)
    told: dict[str, Any] = {
        "credentials": 0,
        "secrets": 0,
        "refused": [],
        "resumed": False,
        "master": master,
        "give": [],
    }
    in_store, in_file = tenancy.is_open, bool(secrets.sealed)
    if master:
        told["give"] = await _change_master(tenancy, secrets)
    if in_store and tenancy.master_key.where not in told["give"]:
        try:
            done = await tenancy.rotation.run(_show)
        finally:
            _clear()
        told["credentials"], told["resumed"] = done.records, done.resumed
        told["refused"] += [str(name) for name in done.lost]
    if in_file and secrets.master_key.where not in told["give"]:
        told["secrets"], lost = secrets.rotate()
        told["refused"] += [f"secret {name}" for name in lost]
    return told


async def _change_master(tenancy: Tenancy, secrets: Secrets) -> list[str]:
    """Have everything open with a new master key, too; says which settings must be given it before the old one goes."""
    used: list[MasterKey] = [tenancy.master_key] if tenancy.is_open else []
    used += [secrets.master_key] if secrets.sealed else []
    theirs = [key for key in used if not key.is_ours]
    given = os.environ.get(NEW, "")
    if theirs and not given:
        hint = f"Make one, `openssl rand -hex 32`, and give it in {NEW}."
        raise ConfigError(f"The new master key is yours to make, as it comes from {theirs[0].where}.", hint=hint)
    if tenancy.is_open:
        await tenancy.rotation.change_master(_next(tenancy.master_key, given))
    if secrets.sealed:
        secrets.wrap_for(_next(secrets.master_key, given))
    for key in used:
        if key.is_ours:
            key.adopt()
    return list(dict.fromkeys(key.where for key in theirs))


def _next(key: MasterKey, given: str) -> bytes:
    return key.succeed() if key.is_ours else key_of(given, NEW)


def _tell(told: dict[str, Any]) -> None:
    done = f"{counted(told['credentials'], 'credential')} and {counted(told['secrets'], 'secret')}"
    if told["credentials"] or told["secrets"] or not told["give"]:
        went_on = "Went on where it was cut short: s" if told["resumed"] else "S"
        say(f"{went_on}ealed {done} with new keys.")
        if told["master"]:
            say("The master key is another: backups from before it open with the old one alone. Make new ones.")
    for where in told["give"]:
        say(f"Everything opens with the new master key and with the old one. Now give the new one in {where}, to every")
        say("gateway and every command; then run `trunkline keys rotate`, after which the old one opens nothing.")
    for name in told["refused"]:
        say(f"Not opened, and left as it was: {name}. Give it again, or remove it.")


def _show(done: int, of: int) -> None:
    if sys.stderr.isatty() and of:
        print(f"\r\033[K{done} of {of} credentials", end="", file=sys.stderr, flush=True)


def _clear() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
