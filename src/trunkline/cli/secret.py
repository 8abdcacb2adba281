"""`trunkline secret`: keep tokens and passwords out of the configuration."""

from __future__ import annotations

import argparse
import getpass
import os
import sys

from trunkline.cli.console import no_answer, print_json, say
from trunkline.cli.main import Commands
from trunkline.config.options import default_home
from trunkline.config.secrets import LARGEST_VALUE, Secrets, check_name
from trunkline.errors import ConfigError


def add_commands(commands: Commands) -> None:
    """Add the command that keeps secrets."""
    secret = commands.add(
        "secret",
        description="Keep secrets that the configuration names as ${secret:NAME}. "
        "`trunkline secret set github.GITHUB_TOKEN` asks for it; or `pass show github | trunkline secret set NAME`.",
    )
    actions = secret.add_subparsers(title="actions", metavar="ACTION", required=True)
    put = actions.add_parser("set", parents=[commands.formatted], help="keep a secret, or change it")
    put.add_argument("name", help="its value is asked for, or read from standard input; it is never an argument")
    put.set_defaults(run=_set)
    listing = actions.add_parser("list", parents=[commands.formatted], help="list the names, not the values")
    listing.set_defaults(run=_list)
    remove = actions.add_parser("remove", parents=[commands.formatted], help="forget a secret")
    remove.add_argument("name")
    remove.set_defaults(run=_remove)


def home_secrets() -> Secrets:
    """The secrets of the home folder."""
    return Secrets(default_home(os.environ))


def ask_secret(prompt: str) -> str:
    """What a person types, unseen; or standard input without its last line break."""
    if sys.stdin.isatty():
        try:
            return getpass.getpass(prompt)
        except EOFError:
            say()
            raise no_answer() from None
    try:
        text = sys.stdin.buffer.read(LARGEST_VALUE + 3).decode()
    except UnicodeDecodeError:
        raise ConfigError("A secret must be a text.") from None  # the cause would hold the value
    return text.removesuffix("\n").removesuffix("\r")


def _set(options: argparse.Namespace) -> int:
    check_name(options.name)
    where = home_secrets().set(options.name, ask_secret(f"Value of {options.name} (it is not shown): "))
    place = "the system's keyring" if where == "keyring" else str(home_secrets().file)
    if options.format == "json":
        print_json({"set": options.name, "kept_in": where})
    else:
        say(f"Kept {options.name} in {place}. Use it as ${{secret:{options.name}}}, in `env` or `headers`.")
    return 0


def _list(options: argparse.Namespace) -> int:
    names = home_secrets().names()
    if options.format == "json":
        print_json({"secrets": names})
    else:
        for name in names:
            print(name)
        if not names and options.format == "table":
            say("There are no secrets. Keep one: trunkline secret set NAME")
    return 0


def _remove(options: argparse.Namespace) -> int:
    if not home_secrets().remove(options.name):
        raise ConfigError(f"There is no secret {options.name!r}.", hint="See `trunkline secret list`.")
    if options.format == "json":
        print_json({"removed": options.name})
    else:
        say(f"Removed {options.name}.")
    return 0
