"""`trunkline user`, `key`: who may call, what with, and the servers that are one user's own."""

from __future__ import annotations

import argparse
from typing import Any

from trunkline.cli.admin import (
    Admin,
    Json,
    administer,
    changed_limits,
    limit_of,
    listed,
    shown_limits,
    with_store,
)
from trunkline.cli.console import agrees, can_ask, counted, print_json, print_list, say, shown_time
from trunkline.cli.main import Commands
from trunkline.errors import ConfigError, NotFoundError

ROLES = {
    "admin": "may do everything, over the admin API too",
    "member": "calls tools, and has keys, servers and threads of their own",
    "reader": "calls tools that only read",
    "issuer": "may what the tokens of their identity provider say",
    "blocked": "is not let in",
}


def add_commands(commands: Commands) -> None:
    """Add the commands about people and their keys."""
    options = with_store(commands)
    _add_user_commands(commands, options)
    key = commands.add(
        "key",
        description="Make the keys that callers send as `Authorization: Bearer KEY`, and revoke them. "
        "A key is shown once, when it is made; the store keeps a digest of it.",
    )
    actions = key.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", parents=[options], help="make a key, and show it this once")
    create.add_argument("--user", required=True, metavar="NAME", help="whose it is")
    create.add_argument("--name", default="", metavar="LABEL", help="what it is for, such as laptop")
    create.add_argument("--expires", default="", metavar="TIME", help="30d, 12h, or a date (default: never)")
    create.add_argument("--profile", default="", metavar="P", help="shows what this profile of the configuration has")
    create.add_argument("--servers", type=listed, default=[], metavar="A,B", help="only these servers")
    create.add_argument("--tools", type=listed, default=[], metavar="GLOB,..", help="only tools of these patterns")
    create.add_argument("--read-only", action="store_true", help="only tools that only read")
    create.set_defaults(run=_create_key)
    listing = actions.add_parser("list", parents=[options], help="list the keys, without their secrets")
    listing.add_argument("--user", metavar="NAME", help="only this user's")
    listing.set_defaults(run=_list_keys)
    revoke = actions.add_parser("revoke", parents=[options], help="let nobody in with a key any more, at once")
    revoke.add_argument("id", help="as `trunkline key list` shows it")
    revoke.set_defaults(run=_revoke_key)


def _add_user_commands(commands: Commands, options: argparse.ArgumentParser) -> None:
    user = commands.add(
        "user",
        description="Say who may call. As soon as there is a user, every request to the gateway wants a key.",
    )
    actions = user.add_subparsers(title="actions", metavar="ACTION", required=True)
    roles = ", ".join(f"{role} {what}" for role, what in ROLES.items())
    for action, run, about in (
        ("add", _add_user, "take in somebody"),
        ("set", _set_user, "change somebody's role or limits"),
    ):
        change = actions.add_parser(action, parents=[options], help=about)
        change.add_argument("name", help="letters, digits and any of _ . @ + -; ISSUER:CLAIM for a user of an issuer")
        change.add_argument(
            "--role", choices=tuple(ROLES), help=f"{roles} (default: {'member' if action == 'add' else 'as it is'})"
        )
        change.add_argument(
            "--limit",
            action="append",
            type=limit_of,
            default=[],
            metavar="NAME=NUMBER",
            help="such as calls_per_hour=100, instead of what [limits] says; 0 is no limit, `default` as [limits]",
        )
        change.set_defaults(run=run)
    listing = actions.add_parser("list", parents=[options], help="list everybody")
    listing.set_defaults(run=_list_users)
    show = actions.add_parser("show", parents=[options], help="show somebody, and what is theirs")
    show.add_argument("name", help="as `trunkline user list` shows it")
    show.set_defaults(run=_show_user)
    remove = actions.add_parser("remove", parents=[options], help="forget somebody with all that is theirs")
    remove.add_argument("name", help="as `trunkline user list` shows it")
    remove.add_argument("--yes", "-y", action="store_true", help="do not ask, as without a terminal nobody is")
    remove.set_defaults(run=_remove_user)


def _add_user(options: argparse.Namespace) -> int:
    wanted = {
        "name": options.name,
        "role": options.role or "member",
        "limits": changed_limits({}, options.limit),
    }

    async def add(admin: Admin) -> tuple[Json, bool]:
        first = not (await admin.ask("GET", "users", limit=1))["users"]
        return await admin.ask("POST", "users", body=wanted), first

    user, first = administer(options, add)
    if options.format == "json":
        print_json(user)
        return 0
    keyless = user["role"] in ("issuer", "blocked")
    make = "" if keyless else f" Make a key: trunkline key create --user {user['name']}"
    say(f"Added {user['name']!r}, {user['role']}.{make}")
    if first:
        say("There is a user now, so every request to the gateway wants a key, also from this machine.")
    return 0


def _set_user(options: argparse.Namespace) -> int:
    if not options.role and not options.limit:
        raise ConfigError("Nothing is to be changed.", hint="Say --role or --limit.")

    async def change(admin: Admin) -> Json:
        before = await admin.ask("GET", "users", options.name)
        wanted = {"role": options.role, "limits": changed_limits(before["limits"], options.limit)}
        return await admin.ask("PATCH", "users", options.name, body=wanted, version=before["version"])

    user = administer(options, change)
    if options.format == "json":
        print_json(user)
    else:
        limits = shown_limits(user["limits"])
        say(f"{user['name']!r} is {user['role']}{f', with {limits}' if limits else ''}.")
    return 0


def _list_users(options: argparse.Namespace) -> int:
    users = administer(options, lambda admin: admin.all("users"))
    print_list(
        options.format,
        {"users": users},
        [one["name"] for one in users],
        ("name", "role", "since", "limits"),
        [[one["name"], one["role"], shown_time(one["created"]), shown_limits(one["limits"])] for one in users],
        empty="There are no users, so nobody needs a key. Add one: trunkline user add NAME",
    )
    return 0


def _show_user(options: argparse.Namespace) -> int:
    async def look(admin: Admin) -> Json:
        user, name = await admin.ask("GET", "users", options.name), options.name
        theirs = {noun: await admin.all(noun, user=name) for noun in ("keys", "threads")}
        return {**user, **theirs, "servers": await admin.servers(name)}

    user = administer(options, look)
    if options.format == "json":
        print_json(user)
        return 0
    print(f"{user['name']} [{user['role']}] since {shown_time(user['created'])}")
    if user["limits"]:
        print(f"    limits: {shown_limits(user['limits'])}")
    for noun, names in (
        ("key", [f"{key['id']}{' ' + key['name'] if key['name'] else ''}" for key in user["keys"]]),
        ("server", [server["name"] for server in user["servers"]]),
        ("thread", [thread["id"] for thread in user["threads"]]),
    ):
        print(f"    {counted(len(names), noun)}{': ' + ', '.join(names) if names else ''}")
    return 0


def _remove_user(options: argparse.Namespace) -> int:
    question = f"Remove {options.name!r} with all keys, servers and threads of theirs?"
    if not options.yes and can_ask() and not agrees(question):
        say("Nobody was removed.")
        return 1
    administer(options, lambda admin: admin.ask("DELETE", "users", options.name))
    if options.format == "json":
        print_json({"removed": options.name})
    else:
        say(f"Removed {options.name!r}. Whatever they had open ends now.")
    return 0


def _create_key(options: argparse.Namespace) -> int:
    names = ("user", "name", "expires", "profile", "servers", "tools", "read_only")
    wanted = {name: getattr(options, name) for name in names}
    made = administer(options, lambda admin: admin.ask("POST", "keys", body=wanted))
    if options.format == "json":
        print_json({"id": made["id"], "key": made["key"]})
        return 0
    print(made["key"])
    if options.format == "table":
        ends = f"ends {shown_time(made['expires'])}" if made["expires"] else "does not end by itself"
        say(f"This is shown once. Send it as `Authorization: Bearer KEY`. Key {made['id']} {ends}.")
    return 0


def _list_keys(options: argparse.Namespace) -> int:
    keys = administer(options, lambda admin: admin.all_of("keys", options.user))
    print_list(
        options.format,
        {"keys": keys},
        [key["id"] for key in keys],
        ("id", "user", "name", "ends", "may"),
        [[key["id"], key["user"], key["name"], shown_time(key["expires"]) or "never", _may(key)] for key in keys],
        empty="There are no keys. Make one: trunkline key create --user NAME",
    )
    return 0


def _may(key: Json) -> str:
    parts = [f"profile {key['profile']}"] if key["profile"] else []
    parts += [f"{noun} {','.join(key[noun])}" for noun in ("servers", "tools") if key[noun]]
    parts += ["only read"] if key["read_only"] else []
    return "; ".join(parts) or "all that its user may"


def _revoke_key(options: argparse.Namespace) -> int:
    # Somebody who has only the key itself at hand means the id in it.
    id = options.id.removeprefix("tl_").partition(".")[0]
    administer(options, lambda admin: admin.ask("DELETE", "keys", id))
    if options.format == "json":
        print_json({"revoked": id})
    else:
        say(f"Revoked {id}. Whatever it had open ends now.")
    return 0


def register(options: argparse.Namespace, spec: dict[str, Any]) -> int:
    """Add a server while the gateway runs, for everybody or for one user, without a word in the file."""
    user = _owner(options)

    async def add(admin: Admin) -> Json:
        await admin.check_user(user)
        if not options.force and options.name in [one["name"] for one in await admin.servers(user)]:
            raise ConfigError(f"There already is a server {options.name!r}.", hint="Replace it with --force.")
        wanted = {**spec, "name": options.name, "scope": options.scope, "user": user}
        return await admin.ask("POST", "servers", body=wanted)

    made = administer(options, add)
    if options.format == "json":
        print_json(made)
    else:
        say(f"Registered {options.name!r} for {user or 'everybody'}.")
    return 0


def unregister(options: argparse.Namespace) -> int:
    """Take such a server out again."""
    user = _owner(options)
    whose: Json = {"scope": options.scope, "user": user or None}

    async def remove(admin: Admin) -> None:
        names = [one["name"] for one in await admin.servers(user)]
        if options.name not in names:
            hint = f"There are: {', '.join(names) or 'none'}."
            raise NotFoundError(f"No server {options.name!r} is registered for {user or 'everybody'}.", hint=hint)
        await admin.ask("DELETE", "servers", options.name, **whose)

    question = f"Remove {options.name!r} of {user or 'everybody'}?"
    if not options.force and can_ask() and not agrees(question):
        say("Nothing was removed.")
        return 1
    administer(options, remove)
    if options.format == "json":
        print_json({"removed": options.name})
    else:
        say(f"Removed {options.name!r} of {user or 'everybody'}.")
    return 0


def _owner(options: argparse.Namespace) -> str:
    if options.scope == "user" and not options.user:
        raise ConfigError("Whose server is it?", hint="Say --user NAME, or --scope app for everybody's.")
    if options.scope == "app" and options.user:
        raise ConfigError("A server of scope app is everybody's.", hint="Leave out --user, or say --scope user.")
    return options.user or ""
