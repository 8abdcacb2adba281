"""`trunkline connect`, `undo`: write Trunkline into a client's configuration, and take it back to the byte."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from trunkline.cli.console import agrees, can_ask, print_json, print_list, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_file
from trunkline.cli.sign_in import offer_sign_ins
from trunkline.clients.client import CLIENTS, Around, Client, Place, here, places, target
from trunkline.clients.connection import FileChange, address_of, difference, gateway_url, own_entry, plan, taken_back
from trunkline.clients.document import Document
from trunkline.clients.file import Backup, backups, changed_since, check_writable, look, restore, settle, write
from trunkline.clients.secret import may_need_sign_in
from trunkline.config.options import Config, default_home
from trunkline.config.reading import load, read_document, user_file
from trunkline.errors import ConfigError
from trunkline.untrusted import printable

CONNECT_EXAMPLES = """examples:
  trunkline connect cursor               shows what would change, and asks
  trunkline connect vscode --project     in this folder's .vscode/mcp.json
  trunkline connect codex --replace      also take out the servers that Trunkline has
  trunkline connect zed --url http://127.0.0.1:7420/mcp/careful
  trunkline connect --list               who is connected, and where
  trunkline undo cursor                  as it was before
"""
UNDO_EXAMPLES = """examples:
  trunkline undo            the last `trunkline connect`
  trunkline undo cursor     the last one of Cursor
"""
CODES = "\nExit codes: 0 done, 1 nothing to do or declined, 2 wrong use, or a file that cannot be changed."


def add_commands(commands: Commands) -> None:
    """Add the commands that write into other clients' files."""
    connect = commands.add(
        "connect",
        commands.formatted,
        description="Write Trunkline into a client's configuration as one server. Everything else in the file stays "
        "as it is, what it was is kept, and `trunkline undo` brings it back.",
        examples=CONNECT_EXAMPLES + CODES,
    )
    connect.add_argument("client", nargs="?", metavar="CLIENT", help=f"one of: {', '.join(CLIENTS)}")
    connect.add_argument("--list", action="store_true", help="show who is connected, and where")
    connect.add_argument("--project", action="store_true", help="in this folder's configuration, not the user's")
    connect.add_argument("--url", help="where Trunkline is (default: as trunkline.toml says)")
    connect.add_argument("--replace", action="store_true", help="also take out the servers that trunkline.toml has")
    connect.add_argument("--dry-run", action="store_true", help="only show what would change")
    connect.add_argument("--yes", "-y", action="store_true", help="do not ask")
    connect.set_defaults(run=_connect)
    undo = commands.add(
        "undo",
        commands.common,
        description="Put a client's configuration back as it was before the last `trunkline connect`, to the byte. In "
        "a file that somebody else changed since, only what `connect` wrote is taken back.",
        examples=UNDO_EXAMPLES + CODES,
    )
    undo.add_argument("client", nargs="?", metavar="CLIENT", help="of this client (default: the last of all)")
    undo.add_argument(
        "--force", action="store_true", help="put the whole file back, and lose what others changed since"
    )
    undo.set_defaults(run=_undo)


def _connect(options: argparse.Namespace) -> int:
    own, around = ours(options), here()
    if options.list:
        return _list(options, own, around)
    if not options.client:
        raise ConfigError("Connect which client?", hint=f"Name one of: {', '.join(CLIENTS)}.")
    client = CLIENTS[check_clients([options.client])[0]]
    place = target(client.name, around, project=options.project)
    if place is None:
        raise ConfigError(f"{client.title} has no configuration for a folder.", hint="Leave --project out.")
    url = options.url or ("" if not client.remote else gateway_url(own.config.gateway))
    if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise ConfigError("--url wants an address such as http://127.0.0.1:7420/mcp.")
    program = None if client.remote else program_of(own, url)
    known = own.servers if options.replace else None
    change = plan(client, place, around, url=url, token=own.token, program=program, known=known)
    return _carry_out(options, own, client, change)


def program_of(own: Ours, url: str) -> dict[str, Any]:
    """`trunkline stdio` with this configuration, or for a gateway elsewhere, as a client starts it from anywhere."""
    beside = Path(sys.executable).with_name("trunkline")
    words = [str(beside)] if beside.exists() else [sys.executable, "-m", "trunkline"]
    words += [
        "stdio",
        *(["--url", url] if url else ["--config", str(own.path.absolute())] if own.path.exists() else []),
    ]
    home = os.environ.get("TRUNKLINE_HOME")
    return {"command": words[0], "args": words[1:], **({"env": {"TRUNKLINE_HOME": home}} if home else {})}


def _carry_out(options: argparse.Namespace, own: Ours, client: Client, change: FileChange) -> int:
    path = change.original.path
    if not change.needed:
        _done(options, {"client": client.name, "file": str(path), "changed": False})
        say(f"{client.title} is connected already, in {path}.")
        return 0
    if options.format != "json":
        print(f"{path}:" if change.original.data is not None else f"{path}, a new file:")
        print(change.preview())
    unsigned = [name for name in change.replaced if may_need_sign_in(own.servers.get(name, {}))]
    for name in unsigned:
        say(printable(f"{name} may want a sign-in, which {client.title} kept to itself: trunkline login {name}"))
    if options.dry_run:
        _done(options, {"client": client.name, "file": str(path), "changed": False, "preview": change.preview()})
        say("Nothing was written.")
        return 0
    if not options.yes:
        if not can_ask():
            say("Nothing was written: nobody is there to agree. --yes agrees, --dry-run only shows.")
            return 1
        if not agrees(f"Write this into {path}?"):
            say("Nothing was written.")
            return 1
    record = write(
        own.config.home, client.name, change.original, change.after.data, time.time(), touched=change.touched
    )
    _done(
        options,
        {"client": client.name, "file": str(path), "changed": True, "backup": str(record)}
        | {"replaced": list(change.replaced), "sign_in": unsigned},
    )
    say(f"{client.title} is connected. {client.then} To take it back: trunkline undo {client.name}")
    _tell_token(own, client, elsewhere=bool(options.url))
    if not options.url:
        asks = not options.yes and options.format != "json"
        offer_sign_ins(lambda: load(own.path, env=os.environ), unsigned, asks=asks)
    return 0


def _done(options: argparse.Namespace, what: dict[str, Any]) -> None:
    if options.format == "json":
        print_json(what)


def _tell_token(own: Ours, client: Client, *, elsewhere: bool) -> None:
    if not own.token or not (client.remote or elsewhere):
        return  # `trunkline stdio` needs none for a gateway of the same user
    if client.variable:
        say(f"The gateway wants a token. The entry reads it from {own.token}: set it where {client.title} starts.")
        return
    say(f"The gateway wants a token, and {client.title} knows no variables, so none was written.")
    if client.remote:
        say('Add it to the entry yourself: "headers": {"Authorization": "Bearer <the token>"}')
    else:
        say(f'Add it to the entry yourself: "env": {{"{TOKEN}": "<the token>"}}')


def _list(options: argparse.Namespace, own: Ours, around: Around) -> int:
    rows: list[dict[str, Any]] = []
    for client in CLIENTS:
        seen = {place.path: place for place in places(client, around)}
        for project in (False, True):
            place = target(client, around, project=project)
            if place is not None:
                seen.setdefault(place.path, place)
        found = [(place, place.path.is_file()) for place in seen.values()]
        for place, there in found:
            if there or place is found[0][0]:
                rows.append({"client": client, "file": str(place.path), "found": there, **_state(place, there, own)})
    print_list(
        options.format,
        {"clients": rows},
        [f"{row['client']} {row['file']}" for row in rows if row["url"]],
        ("client", "found", "connected", "where"),
        [[row["client"], "yes" if row["found"] else "no", _connected(row), row["file"]] for row in rows],
    )
    return 0


def _state(place: Place, there: bool, own: Ours) -> dict[str, str]:
    if not there:
        return {"url": ""}
    try:
        value = Document.of(place.path, place.format, look(place.path).data or b"").value()
    except ConfigError as error:
        return {"url": "", "problem": error.message}
    entry = own_entry(place, value, own.urls)
    return {"url": address_of(entry[1]) or "stdio" if entry else ""}


def _connected(row: dict[str, Any]) -> str:
    return "cannot be read" if row.get("problem") else printable(row["url"]) or "no"


def _undo(options: argparse.Namespace) -> int:
    if options.client:
        check_clients([options.client])
    found = backups(default_home(os.environ), options.client or "")
    if not found:
        say(f"There is nothing to undo{f' of {options.client}' if options.client else ''}.")
        return 1
    backup = found[0]
    if changed_since(backup) and not options.force:
        return _take_out(backup)
    check_writable(look(backup.path))
    restore(backup)
    when = datetime.fromtimestamp(backup.time).astimezone().isoformat(" ", "seconds")
    how = "is as it was before" if backup.existed else "is gone again, as before"
    say(f"{backup.path} {how} {when}.")
    return 0


def _take_out(backup: Backup) -> int:
    """Undo a change in a file that others changed since: only what the change touched is put back."""
    place = _place_of(backup, here())
    now, data = look(backup.path), backup.before()
    if place is None or not backup.touched or now.data is None:
        say(f"{backup.path} was changed since by somebody else, so it was left alone.")
        say("To put the old file back all the same: --force")
        return 1
    check_writable(now)
    current = Document.of(backup.path, place.format, now.data)
    before = Document.of(backup.path, place.format, place.preamble.encode() if data is None else data)
    after = taken_back(current, before, place, backup.touched)
    print(difference(current.text, after.text, [current.value(), after.value()]))
    settle(backup, now, after.data)
    say(f"{backup.path} was changed since by somebody else, so only this was taken back.")
    return 0


def _place_of(backup: Backup, around: Around) -> Place | None:
    known = [*places(backup.client, around), *(target(backup.client, around, project=where) for where in (False, True))]
    return next((place for place in known if place is not None and place.path == backup.path), None)


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
