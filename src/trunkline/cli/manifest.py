"""`trunkline add --manifest`: show what a manifest wants to run, ask, and write it into the configuration."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from trunkline.cli.console import agrees, answer, can_ask, print_json, say
from trunkline.cli.edit import put_server
from trunkline.cli.open import config_file
from trunkline.cli.secret import ask_secret, home_secrets
from trunkline.config.file import read_file, servers_of
from trunkline.config.reading import user_file
from trunkline.config.secrets import name_for
from trunkline.config.server import ServerSpec, shown_url
from trunkline.errors import ConfigError
from trunkline.install.manifests.environment import check
from trunkline.install.manifests.files import fetch_manifest, open_manifest
from trunkline.install.manifests.launch import choose, notes, plan, questions
from trunkline.install.manifests.manifest import Manifest, Variable
from trunkline.install.marketplace.install import table
from trunkline.untrusted import printable


@dataclass
class Answers:
    """What a server asks for before it is configured."""

    given: dict[str, str | list[str]] = field(default_factory=dict[str, str | list[str]])
    typed: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """Secrets to keep once somebody agreed, by the names that they get."""
    missing: list[str] = field(default_factory=list[str])
    """What nobody gave yet."""


def add_manifest(options: argparse.Namespace) -> int:
    """Add the server of a manifest; what it would run is shown first, and nothing is started."""
    for flag in ("env", "header", "cwd", "transport", "address"):
        if getattr(options, flag):
            raise ConfigError(f"A manifest says the {flag} itself.", hint="Answer what it asks with --set NAME=VALUE.")
    manifest = _read(options.manifest)
    choice = choose(manifest, options.package)
    name = options.name or manifest.server_name
    path = config_file(options) or user_file(os.environ)
    if name in servers_of(read_file(path), path) and not options.force:
        raise ConfigError(f"There is a server {name!r} already.", hint="Choose another name, or replace it by --force.")
    wanted = questions(manifest, choice)
    _introduce(manifest, wanted)
    asks = can_ask()
    answers = _ask(wanted, name, options.set, asks=asks)
    spec = plan(manifest, answers.given, package=choice)
    show_command(spec, notes(choice), runs="It would run", reaches="It would reach")
    if not options.yes:
        if not asks:
            say("Nobody can be asked here, so nothing was added. Say --yes if you agree to it.")
            return 1
        if not agrees("Add it?"):
            say("Nothing was added.")
            return 1
    for secret, value in answers.typed.items():
        home_secrets().set(secret, value)
    put_server(path, name, table(spec), force=options.force)
    _report(options, name, path, spec, answers, manifest)
    return 0


def _read(address: str) -> Manifest:
    if "://" in address:
        return fetch_manifest(address)
    return open_manifest(Path(address).expanduser())


def _introduce(manifest: Manifest, wanted: list[Variable]) -> None:
    say(f"{printable(manifest.title)} {printable(manifest.version)}".rstrip() + f": {printable(manifest.description)}")
    if wanted:
        say("It asks for:")
    for variable in wanted:
        kind = ["secret"] if variable.secret else []
        kind += ["required"] if variable.required else []
        kind += [f"one of {', '.join(variable.choices)}"] if variable.choices else []
        kind += [f"default {variable.default}"] if variable.default and not variable.secret else []
        asked = f"{variable.name} ({'; '.join(kind) or 'optional'}) {variable.description}"
        say(f"  {printable(asked)}".rstrip())


def _ask(wanted: list[Variable], server: str, pairs: list[str], *, asks: bool) -> Answers:
    """Take what was given by --set, then ask for the rest; secrets become references."""
    answers = Answers(_given(pairs))
    kept = home_secrets().names()
    for variable in wanted:
        said = answers.given.get(variable.name)
        if variable.secret:
            _take_secret(variable, name_for(server, variable.name), answers, kept, asks=asks)
        elif said is None and variable.required and asks:
            typed = _typed(variable)
            if typed:
                answers.given[variable.name] = typed
        if variable.format == "filepath" and variable.name in answers.given:
            answers.given[variable.name] = _expanded(answers.given[variable.name])
    return answers


def _take_secret(variable: Variable, name: str, answers: Answers, kept: list[str], *, asks: bool) -> None:
    said = answers.given.get(variable.name)
    if said is not None:
        check_reference(variable, said, name)
        return
    if name not in kept:
        left_out = "" if variable.required else ", or nothing"
        value = ask_secret(f"{printable(variable.name)} (it is not shown{left_out}): ") if asks else ""
        problem = check(variable, value) if value else ""
        if problem:
            raise ConfigError(problem)
        if value:
            answers.typed[name] = value
        elif variable.required:
            answers.missing.append(name)
        else:
            return
    answers.given[variable.name] = f"${{secret:{name}}}"


def _typed(variable: Variable) -> str:
    """A person's answer, asked again until it fits; empty takes the default."""
    while True:
        default = f" [{printable(variable.default)}]" if variable.default else ""
        text = answer(f"{printable(variable.name)}{default}: ")
        problem = check(variable, text) if text else "" if variable.default else f"{variable.name} is needed."
        if not problem:
            return text
        say(printable(problem))


def _given(pairs: list[str]) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name:
            raise ConfigError("--set wants NAME=VALUE.")
        before = found.get(name)
        found[name] = value if before is None else [*([before] if isinstance(before, str) else before), value]
    return found


def _expanded(value: str | list[str]) -> str | list[str]:
    if isinstance(value, str):
        return os.path.expanduser(value)
    return [os.path.expanduser(one) for one in value]


def check_reference(variable: Variable, value: str | list[str], name: str) -> None:
    """ConfigError when a secret itself was given where a reference to it should be."""
    if not isinstance(value, str) or not value.startswith("${"):
        raise ConfigError(
            f"{variable.name} is secret, and everyone on the machine can read a command's arguments.",
            hint=f"Leave it out here, and run `trunkline secret set {name}`.",
        )


def show_command(spec: ServerSpec, remarks: list[str], *, runs: str, reaches: str) -> None:
    """What a server would run, or where it would be reached, to the letter."""
    if spec.command:
        say(f"{runs}, without a shell:")
        say("  " + " ".join(shlex.quote(printable(word)) for word in (spec.command, *spec.args)))
        if spec.cwd:
            say(f"  in the folder {printable(spec.cwd)}")
    else:
        say(f"{reaches}:\n  {printable(spec.url)}")
    for name, value in (*spec.env.items(), *spec.headers.items()):
        say(f"  with {printable(name)} = {printable(value)}")
    for remark in remarks:
        say(f"Note: {printable(remark)}")


def _report(
    options: argparse.Namespace, name: str, path: Path, spec: ServerSpec, answers: Answers, manifest: Manifest
) -> None:
    if options.format == "json":
        what = {"command": [spec.command, *spec.args]} if spec.command else {"url": shown_url(spec.url)}
        print_json({
            "added": name,
            "file": str(path),
            **what,
            "secrets": [*answers.typed],
            "unset": answers.missing,
            "fingerprint": manifest.fingerprint,
        })  # fmt: skip
        return
    say(f"Added {name!r} to {path}. Try it: trunkline test {name}")
    for secret in answers.missing:
        say(f"First keep its secret: trunkline secret set {secret}")
