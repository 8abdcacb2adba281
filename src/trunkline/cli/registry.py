"""`trunkline registry`: look for servers, in the built-in catalogue and in registries; nothing is changed."""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections import Counter
from collections.abc import Sequence

from trunkline.cli.console import first_line, print_json, print_list, print_table, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_file, run
from trunkline.config.options import Config
from trunkline.config.reading import load
from trunkline.config.server import ServerSpec
from trunkline.errors import ManifestError, UnknownNameError, UnreachableError
from trunkline.install.manifests.manifest import Variable
from trunkline.install.marketplace.client import OFFLINE, MCPRegistryClient, RegistryUnreached
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.install import Installer, command_line
from trunkline.install.marketplace.options import (
    MCPRegistryClientConfig,
    RegistrySearchOptions,
    configured_registries,
)
from trunkline.install.marketplace.server_json import get_all_well_known_servers

_EXAMPLES = """examples:
  trunkline registry search database
  trunkline registry search -c version-control --verified
  trunkline registry info postgres
  trunkline install postgres
"""


def add_commands(commands: Commands) -> None:
    """Add the commands that look for servers."""
    registry = commands.add(
        "registry",
        description="Look for servers. The built-in catalogue answers at once; a search also asks the official "
        f"registry, and those of [registries.NAME], for at most 2 seconds. With {OFFLINE}=1 nobody is asked.",
        examples=_EXAMPLES,
    )
    actions = registry.add_subparsers(title="actions", metavar="ACTION", required=True)
    both = [commands.formatted]
    search = actions.add_parser("search", parents=both, help="find servers by words of their name, tools or purpose")
    search.add_argument("query", nargs="*", help="the words")
    _add_filters(search, limit=10)
    search.set_defaults(run=_search)
    listing = actions.add_parser("list", parents=both, help="list the servers that are known")
    _add_filters(listing, limit=25)
    listing.set_defaults(run=_search, query=[])
    info = actions.add_parser("info", parents=both, help="show all about one server")
    info.add_argument("id", help="such as `github`, or a registry's `io.github.user/weather`")
    info.add_argument("--version", default="latest", help="of a registry's server (default: latest)")
    info.set_defaults(run=_info)
    categories = actions.add_parser("categories", parents=both, help="list the categories")
    categories.set_defaults(run=_categories)
    popular = actions.add_parser("popular", parents=both, help="list the servers that most people want")
    popular.add_argument("--limit", type=int, default=10, metavar="N", help="how many (default: 10)")
    popular.set_defaults(run=_popular)


def client_for(options: argparse.Namespace) -> MCPRegistryClient:
    """A client that asks whom the configuration names; a registry that is not reached is told in one line."""
    path = config_file(options)
    config = load(path, env=os.environ) if path else Config()
    registries, problems = configured_registries(config)
    for problem in problems:
        say(f"Note: {problem}")
    client = MCPRegistryClient(MCPRegistryClientConfig(registries), home=config.home)
    client.on(RegistryUnreached, lambda event: say(f"Note: {event.reason} What is known here is shown."))
    return client


def find_entry(client: MCPRegistryClient, id: str, version: str = "latest") -> RegistryEntry:
    """The entry of an id; UnreachableError when only a registry could have known it, and none was reached."""
    away: list[str] = []
    client.on(RegistryUnreached, lambda event: away.append(event.registry))
    entry = run(lambda: client.get_entry(id, version=version))
    if entry is not None:
        return entry
    if away and "/" in id:
        raise UnreachableError(f"{id!r} is not known here, and {', '.join(away)} was not reached.")
    known = [one.id for one in get_all_well_known_servers()]
    close = difflib.get_close_matches(id, known, 1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Look for it: trunkline registry search {id}"
    raise UnknownNameError(f"There is no server {id!r} in the catalogue.", hint=hint)


def _add_filters(parser: argparse.ArgumentParser, *, limit: int) -> None:
    parser.add_argument("--category", "-c", action="append", default=[], metavar="WORD", help="only of this category")
    parser.add_argument("--tag", "-t", action="append", default=[], metavar="WORD", help="only with this tag")
    parser.add_argument("--transport", choices=("stdio", "http", "sse"), default="", help="only those reached so")
    parser.add_argument("--verified", action="store_true", help="only those that we have tried")
    parser.add_argument("--limit", type=int, default=limit, metavar="N", help=f"how many (default: {limit})")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="how many to leave out")


def _search(options: argparse.Namespace) -> int:
    wanted = RegistrySearchOptions(
        " ".join(options.query),
        options.category,
        options.tag,
        options.transport,
        options.verified,
        limit=options.limit,
        offset=options.offset,
    )
    client = client_for(options)
    found = run(lambda: client.search(wanted))
    if options.format == "json":
        print_json({
            "servers": [entry.described() for entry in found.entries],
            "total": found.total_count,
            "has_more": found.has_more,
            "unreached": list(found.unreached),
            "dropped": found.dropped,
        })  # fmt: skip
        return 0 if found.entries else 1
    _print_entries(found.entries, compact=options.format == "compact")
    if options.format == "table":
        more = f" More: --offset {wanted.offset + len(found.entries)}." if found.has_more else ""
        hint = " Install one: trunkline install ID" if found.entries else " Try fewer or other words."
        say(f"{len(found.entries)} of {found.total_count} servers.{more}{hint}")
    if found.dropped:
        say(f"{found.dropped} entries of registries were left out, as they were broken.")
    return 0 if found.entries else 1


def _popular(options: argparse.Namespace) -> int:
    client = client_for(options)
    entries = run(lambda: client.get_popular_servers(options.limit))
    if options.format == "json":
        print_json({"servers": [{"rank": rank, **entry.described()} for rank, entry in enumerate(entries, 1)]})
    else:
        _print_entries(entries, compact=options.format == "compact", ranked=True)
    return 0


def _categories(options: argparse.Namespace) -> int:
    client = client_for(options)
    entries = run(client.get_all_entries)
    counts = Counter(word for entry in entries for word in entry.categories)
    names = sorted(counts)
    document = {"categories": [{"name": name, "servers": counts[name]} for name in names]}
    rows = [[name, str(counts[name])] for name in names]
    print_list(options.format, document, names, ("category", "servers"), rows)
    if options.format == "table":
        say(f"{len(counts)} categories. See one: trunkline registry list --category NAME")
    return 0


def _info(options: argparse.Namespace) -> int:
    client = client_for(options)
    entry = find_entry(client, options.id, options.version)
    if options.format == "json":
        ready, missing = client.check_required_env_vars(entry)
        told = {"install_command": command_line(entry), "ready": ready, "missing": list(missing)}
        print_json(entry.described() | told)
    elif options.format == "compact":
        print(f"{entry.id} {entry.version} {command_line(entry) or entry.url}".replace("  ", " "))
    else:
        _print_info(entry)
    return 0


def _print_entries(entries: Sequence[RegistryEntry], *, compact: bool, ranked: bool = False) -> None:
    if compact:
        for entry in entries:
            print(entry.id)
        return
    heads = ("id", "", "category", "from", "description")
    rows = [
        [
            f"{rank}. {entry.id}" if ranked else entry.id,
            mark(entry),
            entry.categories[0] if entry.categories else "",
            entry.source,
            first_line(entry.description),
        ]
        for rank, entry in enumerate(entries, 1)
    ]
    print_table(heads, rows)


def mark(entry: RegistryEntry) -> str:
    """A sign for whether an entry was tried, or the word for why it should no longer be used."""
    return entry.status if entry.status != "active" else "✓" if entry.verified else ""


def _print_info(entry: RegistryEntry) -> None:
    said = ["verified: we started this version, and its tools are these"] if entry.verified else ["not verified"]
    said += [entry.status] if entry.status != "active" else []
    print(f"{entry.name} {entry.version}".rstrip() + f" ({entry.id})")
    print(f"  {entry.description}")
    rows = {
        "from": f"{entry.source}; {', '.join(said)}",
        "by": ", ".join(word for word in (entry.author, entry.license) if word),
        "source": entry.repository,
        "homepage": entry.homepage,
        "updated": entry.last_updated,
        "runs": command_line(entry),
        "at": entry.url,
        "categories": ", ".join(entry.categories),
        "tags": ", ".join(entry.tags),
    }
    for name, value in rows.items():
        if value:
            print(f"  {name + ':':<12}{value}")
    try:
        for variable in Installer(entry).questions():
            print(f"  {'wants:':<12}{_described(variable, environment=variable.name in entry.env_args)}")
    except ManifestError:
        pass  # the notes say why
    if entry.tools:
        print(f"  {'tools:':<12}{', '.join(entry.tools)}")
    for note in entry.notes:
        print(f"  {'note:':<12}{note}")
    print(f"Install it: trunkline install {entry.id}")


def _described(variable: Variable, *, environment: bool) -> str:
    is_set = "✓ " if os.environ.get(variable.name) else "✗ " if variable.required and not variable.default else ""
    kind = ["required" if variable.required else "optional"]
    kind += ["secret"] if variable.secret else ["from the environment alone"] if environment else []
    kind += [f"default {variable.default}"] if variable.default else []
    return f"{is_set}{variable.name} ({', '.join(kind)}) {variable.description}".rstrip()


def entry_of(spec: ServerSpec) -> RegistryEntry | None:
    """The entry that a server was installed from, or might have been; `None` for one that we do not know."""
    words = (spec.command, *spec.args)
    return next((entry for entry in get_all_well_known_servers() if is_from(entry, words, spec.url)), None)


def is_from(entry: RegistryEntry, words: Sequence[str], url: str) -> bool:
    """Whether a command or an address is that of an entry, in whatever version."""
    if entry.url and url == entry.url:
        return True
    packages = [package for package in (entry.npm_package, entry.pypi_package) if package]
    return any(re.fullmatch(re.escape(package) + r"([@=\[~<>!].*)?", word) for package in packages for word in words)
