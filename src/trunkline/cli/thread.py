"""`trunkline thread`: what one conversation of a user has, where it is not what the user has."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, get_args

from trunkline.cli.admin import Admin, Json, administer, changed_limits, limit_of, listed, shown_limits, with_store
from trunkline.cli.console import print_json, print_list, say
from trunkline.cli.main import Commands
from trunkline.config.options import Expose, SearchStrategy
from trunkline.errors import ConfigError, NotFoundError


def add_commands(commands: Commands) -> None:
    """Add the command about threads."""
    thread = commands.add(
        "thread",
        description="Configure a thread. What is not said of it is as its user has it. "
        "Callers name theirs by the header `Trunkline-Thread` or by `_meta` `dev.trunkline/thread`.",
    )
    whose = argparse.ArgumentParser(add_help=False, parents=[with_store(commands)])
    whose.add_argument("--user", metavar="NAME", help="whose it is (default: of callers who need no key)")
    actions = thread.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", parents=[whose], help="list the threads that were configured")
    listing.set_defaults(run=_list)
    for name, run, about in (
        ("show", _show, "show how a thread is configured"),
        ("remove", _remove, "let a thread have what its user has again"),
        ("clone", _clone, "configure another thread alike"),
        ("set", _set, "configure a thread; what is not said stays"),
    ):
        action = actions.add_parser(name, parents=[whose], help=about)
        action.add_argument("id", help="as callers name it")
        action.set_defaults(run=run)
        if name == "clone":
            action.add_argument("to", metavar="NEW", help="the id of the other")
        elif name == "set":
            _add_choices(action)


def _add_choices(action: argparse.ArgumentParser) -> None:
    words = partial(action.add_argument, type=listed, metavar="A,B")
    words("--servers", help="it has these servers, of its user's; '*' for all")
    words("--tools", metavar="GLOB,..", help="it has tools of these patterns; '*' for all")
    words("--disable", default=[], help="it does not have these servers, whatever else is said")
    words("--enable", default=[], help="it has them again")
    action.add_argument("--timeout", type=float, metavar="SECONDS", help="of a call without a sign of life; 0 as usual")
    action.add_argument("--strategy", choices=(*get_args(SearchStrategy), "default"), help="how tools are searched")
    action.add_argument(
        "--expose", choices=(*get_args(Expose), "default"), help="how tools are shown, in its profile's place"
    )
    both = argparse.BooleanOptionalAction
    action.add_argument("--search", action=both, help="whether tools may be searched, or are all listed")
    action.add_argument("--programs", action=both, help="whether programs may call tools")
    action.add_argument(
        "--limit",
        action="append",
        type=limit_of,
        default=[],
        metavar="NAME=NUMBER",
        help="such as calls_per_hour=10, for this thread besides its user's; `default` for none",
    )


def _list(options: argparse.Namespace) -> int:
    threads = administer(options, lambda admin: admin.all_of("threads", options.user))
    whose = f"of {options.user!r}" if options.user else "of callers without a key; say --user NAME for others'"
    print_list(
        options.format,
        {"threads": threads},
        [one["id"] for one in threads],
        ("id", "configured"),
        [[one["id"], "; ".join(_words(one)) or "as its user"] for one in threads],
        empty=f"No threads were configured {whose}.",
    )
    return 0


def _show(options: argparse.Namespace) -> int:
    async def look(admin: Admin) -> Json:
        await admin.check_user(options.user)
        return await admin.ask("GET", "threads", options.id, user=options.user)

    return _print(options, administer(options, look))


def _set(options: argparse.Namespace) -> int:
    async def change(admin: Admin) -> Json:
        await admin.check_user(options.user)
        try:
            before = await admin.ask("GET", "threads", options.id, user=options.user)
        except NotFoundError:
            before = None
        wanted = _changed(before or _NEW, options)
        version = before["version"] if before else 0
        return await admin.ask("PUT", "threads", options.id, body=wanted, version=version, user=options.user)

    return _print(options, administer(options, change))


_NEW: Json = {"servers": None, "tools": [], "disabled": [], "overrides": {}}


def _changed(before: Json, options: argparse.Namespace) -> Json:
    """How a thread is to be: as it was, but for what was typed."""
    overrides: Json = {"limits": {}, **before["overrides"]}
    overrides["limits"] = changed_limits(overrides["limits"], options.limit)
    typed: dict[str, Any] = {
        "search_strategy": options.strategy,
        "expose": options.expose,
        "timeout": options.timeout,
        "disable_tool_search": None if options.search is None else not options.search,
        "disable_programmatic_calling": None if options.programs is None else not options.programs,
    }
    overrides |= {name: value for name, value in typed.items() if value is not None}
    for name in ("search_strategy", "expose"):
        if overrides.get(name) in ("", "default"):
            overrides[name] = None
    disabled = [name for name in (*before["disabled"], *options.disable) if name not in options.enable]
    after = {
        "servers": _chosen(options.servers, before["servers"], None),
        "tools": _chosen(options.tools, before["tools"], []),
        "disabled": list(dict.fromkeys(disabled)),
        "overrides": overrides,
    }
    if before is _NEW and after == {**_NEW, "overrides": {"limits": {}}}:
        raise ConfigError("Nothing is said of the thread.", hint="See `trunkline thread set --help`.")
    return after


def _chosen(typed: list[str] | None, before: list[str] | None, everything: list[str] | None) -> list[str] | None:
    return before if typed is None else everything if "*" in typed else typed


def _clone(options: argparse.Namespace) -> int:
    async def clone(admin: Admin) -> Json:
        await admin.check_user(options.user)
        return await admin.ask("POST", "threads", options.id, "clone", body={"id": options.to}, user=options.user)

    return _print(options, administer(options, clone))


def _remove(options: argparse.Namespace) -> int:
    administer(options, lambda admin: admin.ask("DELETE", "threads", options.id, user=options.user))
    if options.format == "json":
        print_json({"removed": options.id})
    else:
        say(f"Thread {options.id!r} has what its user has.")
    return 0


def _print(options: argparse.Namespace, thread: Json) -> int:
    if options.format == "json":
        print_json(thread)
    else:
        whose = f" of {thread['user']}" if thread["user"] else ""
        print(f"{thread['id']}{whose}")
        for word in _words(thread) or ["as its user"]:
            print(f"    {word}")
    return 0


def _words(thread: Json) -> list[str]:
    """What is said of a thread, for people."""
    overrides = thread["overrides"]
    servers = thread["servers"]
    parts = [f"servers: {', '.join(servers) or 'none'}"] if servers is not None else []
    parts += [f"{noun}: {', '.join(thread[noun])}" for noun in ("tools", "disabled") if thread[noun]]
    parts += [f"searches by {overrides['search_strategy']}"] if overrides["search_strategy"] else []
    parts += [f"tools are shown as {overrides['expose']}"] if overrides["expose"] else []
    parts += ["no search"] if overrides["disable_tool_search"] else []
    parts += ["no programs"] if overrides["disable_programmatic_calling"] else []
    parts += [f"timeout: {overrides['timeout']:g} s"] if overrides["timeout"] else []
    return parts + ([f"limits: {shown_limits(overrides['limits'])}"] if overrides["limits"] else [])
