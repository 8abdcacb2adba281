"""`trunkline review`: what servers changed since it was agreed to, and agreeing to it."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from trunkline.cli.admin import Json
from trunkline.cli.console import counted, print_json, print_lines, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_to_look_at, run, running_gateway
from trunkline.config.options import Config
from trunkline.errors import ConfigError
from trunkline.untrusted import printable

DECISIONS = ("approve", "reject")


def add_commands(commands: Commands) -> None:
    """Add the command."""
    review = commands.add(
        "review",
        commands.formatted,
        description="See what servers say otherwise than was agreed to, as a diff, and what is held back for it. "
        "`approve` agrees to it, `reject` holds it for good. Exit code 1 means that something is held.",
    )
    review.add_argument(
        "words",
        nargs="*",
        metavar="[approve|reject] [SERVER [TOOL ...]]",
        help="of this server alone; what is decided on is all of it, or what is named",
    )
    review.add_argument("--user", default="", metavar="NAME", help="of this user's own servers")
    review.set_defaults(run=_review)


def _review(options: argparse.Namespace) -> int:
    config = config_to_look_at(options)
    words: list[str] = options.words
    if words and words[0] in DECISIONS:
        if len(words) < 2:
            raise ConfigError(f"Of which server is it to {words[0]}?", hint="`trunkline review` shows them.")
        return _decide(config, words[0], words[1], words[2:], options)
    if len(words) > 1:
        raise ConfigError("One server is looked at at a time.", hint="`approve SERVER TOOL` agrees to a tool.")
    found = run(lambda: _waiting(config, words[0] if words else "", options.user))
    if options.format == "json":
        print_json({"review": found})
    elif options.format == "compact":
        print(
            "".join(f"{one['server']} {one['kind']} {printable(one['name'])} {one['state']}\n" for one in found), end=""
        )
    else:
        for one in found:
            _print(one)
        _sum_up(found)
    return 1 if any(one["state"] != "changed" for one in found) else 0


async def _waiting(config: Config, server: str, user: str) -> list[Json]:
    running = running_gateway(config)
    if running is not None:
        asked = {"server": server, "user": user}
        return running.request("GET", f"review{_query(asked)}")["review"]
    import dataclasses

    from trunkline.control.review import reviews
    from trunkline.identity import owner_of, unit_name

    async with _kept(config) as trust:
        found = [one for one in await reviews(trust) if not user or owner_of(one.server) == user]
    return [dataclasses.asdict(one) for one in found if server in ("", one.server, unit_name(one.server))]


def _decide(config: Config, decision: str, server: str, names: list[str], options: argparse.Namespace) -> int:
    decided = run(lambda: _decided(config, decision, server, names, options.user))
    if options.format == "json":
        print_json(decided)
    elif options.format == "compact":
        print_lines(map(printable, decided["names"]))
    else:
        what = "Agreed to" if decision == "approve" else "Rejected"
        say(f"{what} {', '.join(map(printable, decided['names']))} of {server}.")
    return 0


async def _decided(config: Config, decision: str, server: str, names: list[str], user: str) -> Json:
    running = running_gateway(config)
    if running is not None:
        from urllib.parse import quote

        path = f"review/{quote(server, safe='')}/{decision}{_query({'user': user})}"
        return running.request("POST", path, {"names": names})
    from trunkline.control.review import approve, reject
    from trunkline.identity import server_id

    whole = server_id(user, server)
    async with _kept(config) as trust:
        if decision == "approve":
            done = await approve(trust, whole, names, by="operator")
        else:
            done = await reject(trust, whole, names)
    return {"server": whole, "names": done}


@asynccontextmanager
async def _kept(config: Config) -> AsyncGenerator[Any]:
    """What was seen last, where no gateway runs."""
    from trunkline.control.pin_store import open_pins
    from trunkline.control.trust import Trust

    async with open_pins(config.store, config.home) as pins:
        trust = Trust(pins)
        await trust.load_all()
        for server in config.servers:
            await trust.load(server)
        yield trust


def _query(asked: dict[str, str]) -> str:
    from urllib.parse import urlencode

    said = urlencode({name: value for name, value in asked.items() if value})
    return f"?{said}" if said else ""


_STATES = {"held": "held back", "changed": "served with a mark", "rejected": "held back: it was rejected"}


def _print(one: Json) -> None:
    what = ", ".join(part.replace("_", " ") for part in one["what"])
    print(f"{one['server']} {one['kind']} {printable(one['name'])}  [{_STATES[one['state']]}] {what}".rstrip())
    for words in one["why"]:
        print(f"    ! {printable(words)}")
    for seen in one["evidence"]:
        print(f"      {printable(seen)}")
    for line in one["diff"][2:]:  # without the heads: what was agreed to, and what is now
        print(f"    {printable(line)}")


def _sum_up(found: list[Json]) -> None:
    held = sum(one["state"] != "changed" for one in found)
    if not found:
        say("Nothing waits: every server says what was agreed to.")
        return
    say(f"{counted(len(found), 'definition')} to look at, {held} of them held back.")
    for server in dict.fromkeys(one["server"] for one in found):
        say(f"Agree to those of {server}: trunkline review approve {server}")
