"""`trunkline install`: put a server of the catalogue or of a registry into the configuration, and start it once."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from trunkline.cli.console import agrees, answer, can_ask, counted, print_json, say
from trunkline.cli.edit import put_server
from trunkline.cli.main import Commands
from trunkline.cli.manifest import Answers, check_reference, show_command
from trunkline.cli.open import config_file, opened, run
from trunkline.cli.registry import client_for, find_entry, is_from
from trunkline.cli.secret import ask_secret, home_secrets
from trunkline.config.file import read_file, servers_of
from trunkline.config.options import Config
from trunkline.config.reading import load, user_file
from trunkline.config.server import ServerSpec, shown_url
from trunkline.errors import ConfigError, ManifestError
from trunkline.install.manifests.environment import check
from trunkline.install.manifests.manifest import Variable
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.install import Installer, table
from trunkline.install.marketplace.server_json import SOURCE
from trunkline.model import ServerView, State
from trunkline.untrusted import printable

_EXAMPLES = """examples:
  trunkline install filesystem ~/Documents ~/src
  trunkline install github
  trunkline install brave-search --name web
  trunkline install io.github.user/weather --yes
"""
_PROGRAMS = {
    "npx": "It comes with Node.js: https://nodejs.org.",
    "uvx": "It comes with uv: https://docs.astral.sh/uv.",
    "docker": "It comes with Docker: https://docs.docker.com.",
}


def add_commands(commands: Commands) -> None:
    """Add the command."""
    install = commands.add(
        "install",
        commands.formatted,
        description="Install a server: its exact command is shown, what it wants to know is asked for, it is written "
        "into the configuration and started once. Secrets are kept as `trunkline secret` keeps them.",
        examples=_EXAMPLES,
    )
    install.add_argument("id", help="see `trunkline registry search`")
    install.add_argument("values", nargs="*", metavar="VALUE", help="its arguments, in their order")
    install.add_argument("--name", default="", help="how it is called here; default is the end of its id")
    install.add_argument("--arg", action="append", default=[], metavar="[NAME=]VALUE", help="one of its arguments")
    install.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable; no secrets here")
    install.add_argument("--package", default="", metavar="NAME", help="which of several: npm, pypi, oci, remote, or 2")
    install.add_argument("--version", default="latest", help="of a registry's server (default: latest)")
    install.add_argument("--yes", "-y", action="store_true", help="agree to the command, and ask nothing")
    install.add_argument("--force", action="store_true", help="replace a server of the same name")
    install.add_argument("--no-start", action="store_true", help="do not start it once")
    install.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="to start it, once it is downloaded (default: 120)",
    )
    install.set_defaults(run=_install)


def _install(options: argparse.Namespace) -> int:
    entry = find_entry(client_for(options), options.id, options.version)
    if entry.status == "deleted":
        raise ManifestError(f"{entry.id!r} was deleted from {entry.source}.")
    installer = Installer(entry, options.package)
    name = options.name or installer.server_name
    path = config_file(options) or user_file(os.environ)
    known = servers_of(read_file(path), path).get(name)
    if known is not None and not options.force:
        return _already(options, name, path, known, entry)
    say(f"{printable(entry.name)} {entry.version}".rstrip() + f", {_whose(entry)}: {printable(entry.description)}")
    asks = can_ask() and not options.yes
    answers = find_answers(installer, name, options, asks=asks)
    spec = installer.spec(answers.given, name=name)
    show_command(spec, installer.notes, runs="It runs", reaches="It is reached at")
    if entry.source != SOURCE and not options.yes and not (can_ask() and agrees("Install it?")):
        say("Nothing was installed." if can_ask() else "Nobody can be asked here. Say --yes if you agree to it.")
        return 1
    for secret, value in answers.typed.items():
        home_secrets().set(secret, value)
    put_server(path, name, table(spec), force=options.force)
    return _finish(options, spec, path, answers)


def _already(options: argparse.Namespace, name: str, path: Path, known: Any, entry: RegistryEntry) -> int:
    """Installing twice changes nothing, and says so; another server of that name is left alone."""
    there = cast("Mapping[str, Any]", known)
    words = [str(there.get("command", "")), *map(str, there.get("args", ()))]
    if not is_from(entry, words, str(there.get("url", ""))):
        raise ConfigError(
            f"There is another server {name!r} in {path}.", hint="Choose a name with --name, or replace it by --force."
        )
    if options.format == "json":
        print_json({"installed": name, "file": str(path), "already": True})
    else:
        say(f"{name!r} is installed already, in {path}. Install it anew with --force, or once more with --name.")
    return 0


def _whose(entry: RegistryEntry) -> str:
    if entry.source == SOURCE:
        return "which we have tried" if entry.verified else "of our catalogue"
    return f"of {entry.source}, which nobody has checked"


def _finish(options: argparse.Namespace, spec: ServerSpec, path: Path, answers: Answers) -> int:
    """Start it once, if it can be, and tell how that went."""
    say(f"Installed {spec.name!r} in {path}.")
    tried: _Tried | None = None
    if answers.missing:
        for line in answers.missing:
            say(f"Before it can start: {line}")
    elif not options.no_start:
        if spec.command in _PROGRAMS and not shutil.which(spec.command):
            say(f"It needs {spec.command}, which is not on this machine. {_PROGRAMS[spec.command]}")
        config = load(path, env=os.environ)
        tried = run(lambda: _try(config, spec.name, options.timeout))
    if options.format == "json":
        print_json({
            "installed": spec.name,
            "file": str(path),
            **({"command": [spec.command, *spec.args]} if spec.command else {"url": shown_url(spec.url)}),
            "already": False,
            "missing": answers.missing,
            **({"works": tried.works, "reason": tried.reason, "tools": tried.tools} if tried else {}),
        })  # fmt: skip
    elif tried and tried.works:
        named = ", ".join(map(printable, tried.tools))
        say(f"It lists {counted(len(tried.tools), 'tool')}: {named}")
    elif tried:
        say(f"It does not start: {printable(tried.reason)} See why: trunkline doctor {spec.name}")
    return 0 if tried is None or tried.works else 3


@dataclass(frozen=True)
class _Tried:
    works: bool
    reason: str
    tools: list[str]


async def _try(config: Config, name: str, seconds: float) -> _Tried:
    # The first start of a package downloads it, which later ones need no time for.
    spec = dataclasses.replace(config.servers[name], start_timeout=seconds)
    async with opened(dataclasses.replace(config, servers={name: spec}, groups={}, profiles={}), seconds) as hub:
        view = next((view for view in hub.servers() if view.name == name), ServerView(name))
        works = view.state in (State.READY, State.DEGRADED)
        tools = [entry.name for entry in await hub.tools() if name in (entry.server, *entry.members)]
        reason = view.reason or ("" if works else f"it did not answer within {seconds:g} s.")
        return _Tried(works, reason, tools)


def find_answers(installer: Installer, server: str, options: argparse.Namespace, *, asks: bool) -> Answers:
    """What was given, what the machine knows, and what a person says; secrets become references."""
    answers = Answers()
    wanted = installer.questions()
    arguments = installer.arguments()
    given = _given(options, [one for one in wanted if one.name in arguments], wanted)
    for variable in wanted:
        if variable.name in installer.entry.env_args:
            _take_env_argument(variable, given.get(variable.name), answers)
        elif variable.secret:
            _take_secret(variable, server, given.get(variable.name), answers, asks=asks)
        else:
            _take(variable, given.get(variable.name), answers, argument=variable.name in arguments, asks=asks)
    return answers


def _given(options: argparse.Namespace, arguments: list[Variable], wanted: list[Variable]) -> dict[str, list[str]]:
    """Values from the command line by the names of questions; arguments without a name are taken in order."""
    found: dict[str, list[str]] = {}
    names = {one.name.lstrip("-"): one for one in wanted}
    loose: list[str] = [*options.values]
    for pair in options.env:
        name, mark, value = pair.partition("=")
        if not mark or name not in names:
            known = ", ".join(names) or "nothing"
            raise ConfigError("--env wants NAME=VALUE of what it asks for.", hint=f"It asks for: {known}.")
        found.setdefault(names[name].name, []).append(value)
    for text in options.arg:
        name, mark, value = text.partition("=")
        if mark and name.lstrip("-") in names:
            found.setdefault(names[name.lstrip("-")].name, []).append(value)
        else:
            loose.append(text)
    for variable in arguments:
        if loose and variable.name not in found:
            found[variable.name], loose = (loose, []) if variable.repeated else (loose[:1], loose[1:])
    if loose:
        raise ConfigError("There are more values than it takes.", hint="See `trunkline registry info ID`.")
    return found


def _take_env_argument(variable: Variable, said: list[str] | None, answers: Answers) -> None:
    if said and _has_password(said[0]):
        raise ConfigError(
            f"{variable.name} holds a password, which would stand in the configuration.",
            hint=f"Leave it out, and set the variable {variable.name} where Trunkline runs.",
        )
    if not said and not os.environ.get(variable.name):
        answers.missing.append(f"Set the variable {variable.name} where Trunkline runs.")
    answers.given[variable.name] = said or f"${{env:{variable.name}}}"


def _has_password(text: str) -> bool:
    try:
        return urlsplit(text).password is not None or "password" in text.lower()
    except ValueError:
        return True  # what cannot be read may hold anything


def _take_secret(variable: Variable, server: str, said: list[str] | None, answers: Answers, *, asks: bool) -> None:
    secret = f"{server}.{variable.name}"
    if said:
        check_reference(variable, said[0], secret)
        answers.given[variable.name] = said
    elif secret in home_secrets().names():
        answers.given[variable.name] = f"${{secret:{secret}}}"
    elif os.environ.get(variable.name):
        answers.given[variable.name] = f"${{env:{variable.name}}}"
    elif variable.required:
        value = ask_secret(f"{_question(variable)} (it is not shown): ") if asks else ""
        if value:
            answers.typed[secret] = value
        else:
            answers.missing.append(f"Keep its secret: trunkline secret set {secret}")
        answers.given[variable.name] = f"${{secret:{secret}}}"


def _take(variable: Variable, said: list[str] | None, answers: Answers, *, argument: bool, asks: bool) -> None:
    if said is None and not argument and os.environ.get(variable.name):
        said = [f"${{env:{variable.name}}}"]
    if said is None and variable.required and asks:
        said = _typed(variable)
    if said is None and variable.default and variable.required:
        said = [variable.default]
    if said is None and variable.required:
        if argument:
            raise ConfigError(f"It needs {variable.name}: {variable.description}.", hint="Write it after the id.")
        answers.missing.append(f"Set the variable {variable.name} where Trunkline runs.")
        said = [f"${{env:{variable.name}}}"]
    if said is not None:
        texts = [_absolute(text) if variable.format == "filepath" else text for text in said]
        answers.given[variable.name] = texts[0] if len(texts) == 1 else texts


def _typed(variable: Variable) -> list[str] | None:
    """A person's answer, asked again until it fits; nothing takes the default."""
    default = _absolute(variable.default) if variable.format == "filepath" and variable.default else variable.default
    while True:
        text = answer(f"{_question(variable)}{f' [{printable(default)}]' if default else ''}: ")
        problem = check(variable, text) if text else ""
        if not problem:
            return [text] if text else None
        say(printable(problem))


def _question(variable: Variable) -> str:
    return f"{printable(variable.description) or printable(variable.name)}"


def _absolute(text: str) -> str:
    return text if "${" in text else os.path.abspath(os.path.expanduser(text))
