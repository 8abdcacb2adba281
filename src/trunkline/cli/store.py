"""`trunkline store`: how the store fares, and everything that is in it as one document, out and in."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.cli.admin import config_of, with_store
from trunkline.cli.console import agrees, can_ask, counted, no_answer, print_json, say
from trunkline.cli.main import Commands
from trunkline.cli.open import run
from trunkline.config.options import Config
from trunkline.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from trunkline.storage.store import Place
    from trunkline.tenancy.portable import Import, Portable, Preview
    from trunkline.tenancy.tenancy import Tenancy

PASSPHRASE = "TRUNKLINE_STORE_PASSPHRASE"  # noqa: S105 - the variable's name


def add_commands(commands: Commands) -> None:
    """Add the command about the store."""
    store = commands.add(
        "store",
        description="Look after the store, where users, keys, servers, threads and what was agreed to of "
        "servers are kept. A running gateway goes on meanwhile, and hears of what changes.",
    )
    options = with_store(commands)
    actions = store.add_subparsers(title="actions", metavar="ACTION", required=True)
    status = actions.add_parser("status", parents=[options], help="say where it is, and what is in it")
    status.set_defaults(run=_status)
    migrate = actions.add_parser("migrate", parents=[options], help="bring it to the newest schema, as any use does")
    migrate.set_defaults(run=_migrate)
    export = actions.add_parser("export", parents=[options], help="write everything as one JSON document")
    export.add_argument("file", nargs="?", default="-", metavar="FILE", help="a new file (default: standard output)")
    secrets = f"asked for unseen, or read from {PASSPHRASE}"
    export.add_argument(
        "--passphrase", action="store_true", help=f"with keys and secrets, sealed by a passphrase: {secrets}"
    )
    export.set_defaults(run=_export)
    bring = actions.add_parser("import", parents=[options], help="bring in such a document, all of it or nothing")
    bring.add_argument("file", metavar="FILE", help="the document; - for standard input")
    bring.add_argument("--passphrase", action="store_true", help=f"bring in what is sealed, too; {secrets}")
    bring.add_argument("--allow-commands", action="store_true", help="also servers that start a command here")
    bring.add_argument(
        "--allow-held", action="store_true", help="also agreement to definitions that would be held back here"
    )
    bring.add_argument("--yes", "-y", action="store_true", help="do not ask")
    bring.set_defaults(run=_import)
    backup = actions.add_parser("backup", parents=[options], help="copy an embedded store, as it is at one moment")
    backup.add_argument("file", metavar="FILE", help="a new file")
    backup.set_defaults(run=_backup)


def _status(options: argparse.Namespace) -> int:
    from trunkline.storage.store import place_of

    config = config_of(options)
    place = place_of(config.store.url, config.home)
    told: dict[str, Any] = {"store": place.shown, "engine": "postgresql" if place.file is None else "sqlite"}
    told |= run(lambda: _look(place)) if place.exists else {"exists": False}
    if options.format == "json":
        print_json(told)
    elif not told["exists"]:
        say(f"There is no store at {told['store']} yet. It is made when somebody is added: trunkline user add NAME")
    else:
        print(f"{told['store']} ({told['engine']})")
        newer = f", and {told['newest']} is the newest: trunkline store migrate"
        print(f"    schema {told['schema']}{newer if told['schema'] < told['newest'] else ''}")
        if "users" in told:
            print(f"    {', '.join(counted(told[noun], noun[:-1]) for noun in _NOUNS)}")
    return 0


_NOUNS = ("users", "keys", "servers", "threads", "credentials")


async def _look(place: Place) -> dict[str, Any]:
    """What is in a store, which is left as it is."""
    from trunkline.storage.schema import NEWEST, VAULT, version_of
    from trunkline.storage.store import reach

    engine = await reach(place)
    try:
        try:
            schema = await version_of(engine)
        except StoreError:  # it was reached, so this says that nobody ever put anything into it
            schema = 0
        told: dict[str, Any] = {"exists": schema > 0, "schema": schema, "newest": NEWEST}
        if not 0 < schema <= NEWEST:
            return told
        rows = await engine.fetch(
            "SELECT 'users', COUNT(*) FROM users UNION ALL SELECT 'keys', COUNT(*) FROM keys "
            "UNION ALL SELECT noun || 's', COUNT(*) FROM documents GROUP BY noun"
        )
        if schema >= VAULT:
            rows += await engine.fetch("SELECT 'credentials', COUNT(*) FROM credentials")
        return told | dict.fromkeys(_NOUNS, 0) | dict(rows)
    finally:
        await engine.close()


def _migrate(options: argparse.Namespace) -> int:
    from trunkline.storage.schema import migrate
    from trunkline.storage.store import place_of, reach

    config = config_of(options)
    place = place_of(config.store.url, config.home)

    async def bring() -> tuple[int, int]:
        engine = await reach(place)
        try:
            return await migrate(engine)
        finally:
            await engine.close()

    before, after = run(bring)
    if options.format == "json":
        print_json({"store": place.shown, "from": before, "to": after})
    elif before == after:
        say(f"The store at {place.shown} has the newest schema, {after}.")
    else:
        say(f"The store at {place.shown} went from schema {before} to {after}.")
    return 0


@asynccontextmanager
async def _opened(config: Config) -> AsyncGenerator[Tenancy]:
    """A store that is there."""
    from trunkline.tenancy.tenancy import open_tenancy

    async with open_tenancy(config.store, config.home) as tenancy:
        if not tenancy.is_open:
            raise ConfigError(f"There is no store at {tenancy.place.shown} yet.", hint="See `trunkline store status`.")
        yield tenancy


def _export(options: argparse.Namespace) -> int:
    from trunkline.storage.files import write_private
    from trunkline.tenancy.portable import export

    config = config_of(options)
    passphrase = _passphrase(twice=True) if options.passphrase else ""

    async def write() -> bytes:
        async with _opened(config) as tenancy:
            return await export(tenancy, passphrase)

    document = run(write)
    if options.file == "-":
        sys.stdout.buffer.write(document)
        sys.stdout.buffer.flush()
        return 0
    path = Path(options.file).expanduser()
    try:
        write_private(path, document)
    except OSError as error:
        raise _not_written(path, error) from None
    if options.format == "json":
        print_json({"exported": str(path), "secrets": bool(passphrase)})
    else:
        left = "keys and secrets are in it, sealed" if passphrase else "keys and secrets are not in it"
        say(f"Wrote {path}; {left}.")
    return 0


def _import(options: argparse.Namespace) -> int:
    from trunkline.tenancy.portable import Import, read
    from trunkline.tenancy.tenancy import open_tenancy

    config = config_of(options)
    document = read(_content(options.file))
    passphrase = _wanted_passphrase(options, document)

    async def bring() -> Preview | None:
        async with open_tenancy(config.store, config.home) as tenancy:
            coming = Import(tenancy, document, passphrase, commands=options.allow_commands, held=options.allow_held)
            preview = await coming.preview()
            if options.format == "table":
                _tell(preview, coming)
            if not _agreed(options, tenancy.place.shown):
                return None
            await coming.take()
            return preview

    taken = run(bring)
    if taken is None:
        say("Nothing was changed.")
        return 1
    if options.format == "json":
        print_json({"added": taken.added, "changed": taken.changed, "same": taken.same, "left": taken.left})
    else:
        say(f"Brought in: {len(taken.added)} added, {len(taken.changed)} changed, {taken.same} the same as before.")
    return 0


def _content(file: str) -> bytes:
    from trunkline.tenancy.portable import LARGEST

    try:
        if file == "-":
            return sys.stdin.buffer.read(LARGEST + 1)
        with Path(file).expanduser().open("rb") as opened:
            return opened.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None


def _wanted_passphrase(options: argparse.Namespace, document: Portable) -> str:
    if options.passphrase:
        return _passphrase(twice=False)
    if not document.sealed:
        return ""
    if not os.environ.get(PASSPHRASE):
        say("Keys and secrets in the document are sealed, and stay out of it: say --passphrase to bring them, too.")
    return os.environ.get(PASSPHRASE, "")


def _tell(preview: Preview, coming: Import) -> None:
    for mark, names in (("+", preview.added), ("~", preview.changed)):
        for name in names:
            print(f"{mark} {name}")
    for name in preview.left:
        print(f"= {name}, left as it is here")
    keys = f" With {counted(len(coming.keys), 'key')}." if coming.keys else ""
    say(f"{len(preview.added)} to add, {len(preview.changed)} to change, {preview.same} the same.{keys}")


def _agreed(options: argparse.Namespace, where: str) -> bool:
    if options.yes:
        return True
    if options.file == "-" or not can_ask():
        raise ConfigError("Nothing was changed: nobody is there to agree.", hint="Say --yes to bring it in.")
    return agrees(f"Bring this into the store at {where}?")


def _backup(options: argparse.Namespace) -> int:
    config, path = config_of(options), Path(options.file).expanduser()

    async def copy() -> None:
        async with _opened(config) as tenancy:
            await (await tenancy.store()).backup(path)

    try:
        run(copy)
    except OSError as error:
        raise _not_written(path, error) from None
    if options.format == "json":
        print_json({"backup": str(path)})
    else:
        say(f"Copied the store to {path}. What it keeps secret needs the same seal.key, or [store] `key`.")
    return 0


def _not_written(path: Path, error: OSError) -> ConfigError:
    if isinstance(error, FileExistsError):
        return ConfigError(f"{path} is there already.", hint="Name a new file.")
    return ConfigError(f"{path} cannot be written: {error.strerror}.")


def _passphrase(*, twice: bool) -> str:
    """What a person types unseen, or the environment holds; never an argument, which everyone here could read."""
    given = os.environ.get(PASSPHRASE, "")
    if given:
        return given
    if not can_ask():
        raise ConfigError("Nobody is there to type the passphrase.", hint=f"Set {PASSPHRASE}.")
    try:
        typed = getpass.getpass("Passphrase (it is not shown): ")
        if twice and typed and getpass.getpass("Once more: ") != typed:
            raise ConfigError("The two are not the same. Nothing was written.")
    except EOFError:
        raise no_answer() from None
    if not typed:
        raise ConfigError("An empty passphrase protects nothing.")
    return typed
