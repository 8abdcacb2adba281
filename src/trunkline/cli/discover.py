"""`trunkline discover`: what the servers offer, what is new since the last time, and what can be told of it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from trunkline.cli.console import counted, exact_time, first_line, print_json, say
from trunkline.cli.main import Commands
from trunkline.cli.open import check_server, config_to_look_at, hint_to_begin, only, opened, run
from trunkline.cli.show import MARKS, WELL, add_timeout
from trunkline.cli.tools import known_of
from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.config.tenancy import DiscoverySection
from trunkline.control.change import ToolChange
from trunkline.errors import ConfigError
from trunkline.model import Kind, Listing, ServerView
from trunkline.storage.files import try_replace_file
from trunkline.tools.annotations import get_annotation_summary, get_tool_safety_level
from trunkline.tools.infer import Inference, infer
from trunkline.untrusted import printable
from trunkline.wire.members import decode_object

if TYPE_CHECKING:
    from trunkline.gateway.api.discovery import ShownService

SIGNS = {"new": "+", "back": "+", "changed": "~", "gone": "-"}
OTHERS = {
    Kind.RESOURCE: ("resource", "uri"),
    Kind.TEMPLATE: ("template", "uriTemplate"),
    Kind.PROMPT: ("prompt", "name"),
}


def add_commands(commands: Commands) -> None:
    """Add the command."""
    discover = commands.add(
        "discover",
        commands.formatted,
        description="Start the servers, and show what each offers: tools, resources and prompts, and which tools are "
        "new, changed or gone since you last did so. Exit code 3 means that none can be reached. With --url, show "
        "instead the servers that a discovery endpoint offers; --register takes one in, and nothing is started.",
    )
    discover.add_argument("--server", metavar="NAME", help="only this one")
    discover.add_argument(
        "--infer-annotations", action="store_true", help="also what the words of each tool say of it, and which words"
    )
    discover.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    add_timeout(discover)
    discover.add_argument(
        "--url",
        nargs="?",
        const="",
        metavar="URL",
        help="what an endpoint offers; default is that of [discovery]",
    )
    discover.add_argument("--register", metavar="NAME", help="register this server of what the endpoint offers")
    discover.add_argument("--user", default="", metavar="NAME", help="with --register, as this user's own")
    discover.add_argument("--store", default="", metavar="URL", help="with --url, in this store, whatever runs")
    discover.set_defaults(run=_discover)


@dataclass(frozen=True)
class News:
    """What became of one tool."""

    what: Literal["new", "changed", "gone", "back"]
    parts: tuple[str, ...] = ()
    """The parts of its definition that differ."""

    def __str__(self) -> str:
        return f"{self.what}: {', '.join(self.parts)}" if self.parts else self.what


@dataclass(frozen=True)
class Discovered:
    """What one server offers now, and what was known of it before."""

    view: ServerView
    news: dict[str, News] = field(default_factory=dict[str, News])
    since: float = 0.0
    """When it was last looked at, in seconds since the epoch; 0 when never."""

    @property
    def reached(self) -> bool:
        return self.view.state in WELL

    def offers(self, kind: Kind) -> list[dict[str, Any]]:
        """The definitions of one kind, as the server gave them."""
        listing = self.view.lists.get(kind, Listing())
        return [decode_object(item) for item in (*listing.items, *listing.for_askable)]

    @property
    def gone(self) -> list[str]:
        return [tool for tool, news in self.news.items() if news.what == "gone"]


def _discover(options: argparse.Namespace) -> int:
    if options.url is not None or options.register:
        return _look_at_services(options)
    if options.user or options.store:
        raise ConfigError("--user and --store are for what an endpoint offers.", hint="Say --url.")
    config = config_to_look_at(options)
    if options.server:
        check_server(config, options.server, looks=True)
        spec = config.servers.get(options.server)
        if spec is not None and not spec.enabled:
            raise ConfigError(f"Server {spec.name!r} is switched off.", hint="Set `enabled = true` in its table.")
    found = run(lambda: _look(only(config, options.server), options.timeout))
    if options.format == "json":
        print_json({"servers": [_described(one, infers=options.infer_annotations) for one in found]})
    elif options.format == "compact":
        for one in found:
            print("".join(f"{one.view.name} {name} {news}\n" for name, news in _tools(one)), end="")
    else:
        for one in found:
            _print(one, options)
        _sum_up(found, hint_to_begin(config, options.server), infers=options.infer_annotations)
    return 3 if found and not any(one.reached for one in found) else 0


def _look_at_services(options: argparse.Namespace) -> int:
    """Show what an endpoint offers, or take one of it in, with whoever has the registered servers."""
    from trunkline.cli.admin import Admin, administer
    from trunkline.gateway.api.discovery import shown_service
    from trunkline.install.services import ServiceDirectory
    from trunkline.tenancy.servers import Registration

    async def ask(admin: Admin) -> tuple[list[ShownService], bool]:
        config = _with_endpoint(admin.config, options.url)

        async def kept(user: str) -> list[Registration]:
            specs = [ServerSpec(one["name"], one["command"], url=one["url"]) for one in await admin.servers(user)]
            return [Registration(spec) for spec in specs]

        async def put(wanted: Mapping[str, Any], user: str) -> dict[str, Any]:
            whose = {"scope": "user", "user": user} if user else {"scope": "app"}
            return await admin.ask("POST", "servers", body={**wanted, **whose})

        services = ServiceDirectory(lambda: config, kept, lambda: {*config.servers, *config.groups}, put)
        await admin.check_user(options.user)
        made = await services.register(options.register, options.user) if options.register else None
        return [shown_service(one) for one in await services.offered(options.user)], made is not None

    offered, made = administer(options, ask)
    if options.register:
        offered = [one for one in offered if one["name"] == options.register]
    if options.format == "json":
        print_json({"services": offered, **({"registered": made} if options.register else {})})
    elif options.register:
        whose = options.user or "everybody"
        say(
            f"Registered {options.register!r} for {whose}." if made else f"{options.register!r} was registered already."
        )
    else:
        _print_services(offered)
    return 0


def _print_services(offered: Sequence[ShownService]) -> None:
    for one in offered:
        mark = "✓" if one["registered"] else "✗" if one["problem"] else "+"
        print(printable(f"{mark} {one['name']}  {one['address']}  {first_line(one['description'])}").rstrip())
        if one["problem"]:
            print(printable(f"    {one['problem']}"))
    new = sum(not (one["registered"] or one["problem"]) for one in offered)
    say(f"{counted(len(offered), 'service')}, {new} to register. Take one in: trunkline discover --url --register NAME")


def _with_endpoint(config: Config, url: str | None) -> Config:
    """The configuration with another endpoint, which is not shown the token of the configured one."""
    if not url or url == config.discovery.url:
        return config
    return dataclasses.replace(config, discovery=DiscoverySection(url=url, timeout=config.discovery.timeout))


async def _look(config: Config, seconds: float) -> list[Discovered]:
    looks = LastLook(config.home)
    before = looks.read()
    async with opened(config, seconds) as hub:
        changes = await hub.history.changes()  # when everything that was read is noted
        now = time.time()
        found = [_discovered(view, changes, before) for view in hub.servers()]
    looks.write({one.view.name: now for one in found if one.reached})
    return found


def _discovered(view: ServerView, changes: list[ToolChange], before: dict[str, float]) -> Discovered:
    since = before.get(view.name, 0.0)
    news = news_of(change for change in changes if change.server == view.name and change.when > since)
    return Discovered(view, news, since)


def _tools(one: Discovered) -> Iterator[tuple[str, str]]:
    """The names of tools, those that are gone last, and what is new of each."""
    if one.reached:
        for tool in one.offers(Kind.TOOL):
            name = str(tool.get("name", ""))
            yield printable(name), str(one.news.get(name, ""))
        for name in one.gone:
            yield printable(name), "gone"


def inferred(tool: dict[str, Any]) -> Inference:
    """What the words of a definition say; what its server or the configuration says of it does not count."""
    schema: Any = tool.get("inputSchema")
    return infer(str(tool.get("name", "")), str(tool.get("description", "")), schema if schema else {})


def _described(one: Discovered, *, infers: bool) -> dict[str, Any]:
    """A server for programs to read."""
    told: dict[str, Any] = {"name": one.view.name, "state": one.view.state.value, "reason": one.view.reason}
    if not one.reached:
        return told
    told["since"] = exact_time(one.since)
    told["tools"] = [
        _described_tool(tool, one.news.get(str(tool.get("name", ""))), infers) for tool in one.offers(Kind.TOOL)
    ]
    told["gone"] = one.gone
    for kind in OTHERS:
        told[kind.value] = one.offers(kind)
    return told


def _described_tool(tool: dict[str, Any], news: News | None, infers: bool) -> dict[str, Any]:
    told = dict(tool)
    if news:
        told["news"] = {"what": news.what, "parts": list(news.parts)}
    if infers:
        found = inferred(tool)
        told["inferred"] = {
            "safety": get_tool_safety_level(found.annotations),
            "annotations": known_of(found.annotations),
            "confidence": found.confidence,
            "evidence": list(found.evidence),
        }
    return told


def _print(one: Discovered, options: argparse.Namespace) -> None:
    view = one.view
    mark = f"{MARKS.get(view.state, '✗')} {view.name} [{view.state.value}]"
    if not one.reached:
        print(f"{mark}\n    {view.reason or f'It did not answer within {options.timeout:g} s.'}")
        return
    print(f"{mark} {_counted(one)}" + ("" if one.since else ", for the first time"))
    if view.reason:
        print(f"    {view.reason}")
    width = max([len(name) for name, _ in _tools(one)], default=0)
    for tool in one.offers(Kind.TOOL):
        name = str(tool.get("name", ""))
        _print_tool(tool, one.news.get(name), width, infers=options.infer_annotations)
    for name in one.gone:
        print(f"  - {printable(name).ljust(width)}  gone")
    for kind, (word, key) in OTHERS.items():
        for item in one.offers(kind):
            print(f"    {word} {printable(str(item.get(key, '')))}  {_about(item)}".rstrip())


def _counted(one: Discovered) -> str:
    words = {Kind.TOOL: "tool"} | {kind: word for kind, (word, _) in OTHERS.items()}
    counts = {word: len(one.offers(kind)) for kind, word in words.items()}
    return ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items() if n) or "offers nothing"


def _print_tool(tool: dict[str, Any], news: News | None, width: int, *, infers: bool) -> None:
    name = printable(str(tool.get("name", "")))
    about = f"[{news}] {_about(tool)}" if news else _about(tool)
    print(f"  {SIGNS[news.what] if news else ' '} {name.ljust(width)}  {about}".rstrip())
    if infers:
        found = inferred(tool)
        why = " ".join(found.evidence) or "No word tells."
        level, summary = get_tool_safety_level(found.annotations), get_annotation_summary(found.annotations)
        print(printable(f"      {level} {summary}: {why}"))


def _about(item: dict[str, Any]) -> str:
    return printable(first_line(str(item.get("description") or item.get("title") or item.get("name", ""))))


def _sum_up(found: list[Discovered], hint: str, *, infers: bool) -> None:
    reached = [one for one in found if one.reached]
    tools = [tool for one in reached for tool in one.offers(Kind.TOOL)]
    news = Counter(news.what for one in reached for news in one.news.values())
    told = ", ".join(f"{number} {what}" for what, number in news.items()) or "nothing new"
    say(f"{len(reached)} of {counted(len(found), 'server')}, {counted(len(tools), 'tool')}: {told}. {hint}".rstrip())
    if infers:
        hints = [inferred(tool).annotations for tool in tools]
        reading = sum(one.read_only_hint is True for one in hints)
        destroying = sum(one.destructive_hint is True for one in hints)
        repeatable = sum(one.idempotent_hint is True for one in hints)
        say(f"By their words {reading} only read, {destroying} are destructive, and {repeatable} are idempotent.")
    if news:
        say("When and what exactly: trunkline tools --changes")


def news_of(changes: Iterable[ToolChange]) -> dict[str, News]:
    """The changes of one server, the newest first, as one piece of news for each tool."""
    found: dict[str, list[ToolChange]] = {}
    for change in changes:
        found.setdefault(change.tool, []).append(change)
    return {tool: _news(its) for tool, its in found.items()}


def _news(changes: list[ToolChange]) -> News:
    words = dict.fromkeys(word for change in reversed(changes) for word in change.what)
    parts = tuple(word for word in words if word not in ("added", "removed", "restored"))
    if changes[0].what == ("removed",):
        return News("gone")
    if "added" in words:
        return News("new")
    return News("back", parts) if "restored" in words else News("changed", parts)


class LastLook:
    """When each server was last looked at, in one file; one that cannot be read counts as never."""

    def __init__(self, home: Path) -> None:
        self._path = home / "discovered.json"

    def read(self) -> dict[str, float]:
        """Seconds since the epoch, by server."""
        try:
            document: Any = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        if not isinstance(document, dict):
            return {}
        times = cast("dict[str, Any]", document)
        return {name: float(when) for name, when in times.items() if isinstance(when, int | float)}

    def write(self, looks: Mapping[str, float]) -> bool:
        """Remember these besides the others; false when the disk does not take it, and then news are told again."""
        return try_replace_file(self._path, json.dumps({**self.read(), **looks}).encode())
