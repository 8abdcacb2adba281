"""Servers to install, in the admin API: found in the catalogue and in registries, registered with what they want."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from trunkline.errors import ManifestError, NotFoundError, RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.gateway.api.servers import ShownServer, owner_for, put_server, shown

if TYPE_CHECKING:
    from trunkline.install.manifests.manifest import Variable
    from trunkline.install.marketplace.client import MCPRegistryClient
    from trunkline.install.marketplace.entry import RegistryEntry
    from trunkline.relay import Relay

LONGEST_QUERY = 200
STARTS = "It is started here, which is not done over the API."


class WantedInstall(Body, frozen=True):
    """How an entry is to be installed."""

    name: str = ""
    """What the server is called; default is the end of its id."""
    package: str = ""
    """Which of several ways: `remote`, `npm`, `pypi`, `oci`, or a number."""
    values: dict[str, str | list[str]] = {}
    """What it wants to know, by name."""
    scope: Literal["app", "user"] | None = None
    """Everybody's, or one's own; default is `app` for admins."""
    user: str = ""


class ShownEntry(TypedDict, total=False):
    """A server that can be installed."""

    name: str
    """Its id, by which it is asked for."""
    title: str
    description: str
    version: str
    author: str
    homepage: str
    repository: str
    categories: list[str]
    tags: list[str]
    tools: list[str]
    transports: list[str]
    verified: bool
    status: str
    source: str
    installed: bool
    packages: list[str]
    """What can be started: `npm`, `pypi`."""
    remote: bool
    """It is reached at an address, and nothing is started here."""


class WantedValue(TypedDict):
    """Something that must be known to run it."""

    name: str
    description: str
    required: bool
    secret: bool
    default: str
    choices: list[str]
    repeated: bool


class EntryDetail(ShownEntry, total=False):
    """All that is to be known before it is installed."""

    url: str
    runs: str
    """What is started, where something is."""
    inputs: list[WantedValue]
    notes: list[str]
    allowed: bool
    """Whether you may install it here; else by `command`."""
    reason: str
    """Why not, where you may not."""
    command: str


def routes(relay: Relay) -> list[Route]:
    """What can be done with servers to install."""
    api = _Registry(relay)
    return [
        Route(
            "GET",
            "registry",
            "Servers that can be installed: those that we tried, and those of registries",
            api.search,
            gives=ShownEntry,
            pages="servers",
            query=("q", "cursor", "limit"),
        ),
        Route("GET", "registry/{name}", "One of them, by its id", api.get, gives=EntryDetail),
        Route(
            "POST",
            "registry/{name}/install",
            "Register it, with what it wants to know; what is started here only by admins, and with `allow_commands`",
            api.install,
            WantedInstall,
            ShownServer,
            status=201,
        ),
    ]


class _Registry:
    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._made: tuple[object, MCPRegistryClient] | None = None

    def _client(self) -> MCPRegistryClient:
        """Asks whom the configuration names at this moment."""
        from trunkline.install.marketplace.client import MCPRegistryClient
        from trunkline.install.marketplace.options import MCPRegistryClientConfig, configured_registries

        config = self._relay.config
        if self._made is None or self._made[0] != config.registries:
            registries, _ = configured_registries(config)
            self._made = config.registries, MCPRegistryClient(MCPRegistryClientConfig(registries), home=config.home)
        return self._made[1]

    async def search(self, ask: Ask) -> Given:
        query, start = ask.query.get("q", ""), ask.cursor or "0"
        if not start.isascii() or not start.isdecimal() or len(start) > 6:
            raise RefusedError("`cursor` is not one of ours.", status=422)
        if len(query) > LONGEST_QUERY:
            raise RefusedError(f"`q` has more than {LONGEST_QUERY} letters.", status=422)
        found = await self._client().search(query=query, limit=ask.limit, offset=int(start))
        body: dict[str, Any] = {"servers": [self._shown(one) for one in found.entries], "total": found.total_count}
        if found.unreached:
            body["unreached"] = list(found.unreached)
        return Given(body | ({"cursor": str(int(start) + len(found.entries))} if found.has_more else {}))

    async def get(self, ask: Ask) -> Given:
        from trunkline.install.marketplace.install import Installer, command_line

        entry = await self._entry(ask)
        told: dict[str, Any] = {
            **self._shown(entry),
            "url": entry.url,
            "runs": command_line(entry),
            "inputs": [],
            "notes": list(entry.notes),
            "allowed": self._may(ask, entry),
            "reason": "" if self._may(ask, entry) else STARTS,
            "command": f"trunkline install {entry.id}",
        }
        try:
            installer = Installer(entry)
            told |= {"inputs": [_wanted(one) for one in installer.questions()], "notes": installer.notes}
        except ManifestError as error:
            told |= {"reason": str(error), "allowed": False}
        return Given(told)

    async def install(self, ask: Ask) -> Given:
        from trunkline.install.marketplace.install import Installer, table

        body: WantedInstall = ask.body
        user = owner_for(ask, body.scope or ("app" if ask.scope.role == "admin" else "user"), body.user)
        entry = await self._entry(ask)
        if entry.status == "deleted":
            raise NotFoundError(f"{entry.id!r} was deleted from {entry.source}.")
        spec = Installer(entry, body.package).spec(body.values, name=body.name)
        wanted = {**table(spec), "name": spec.name, "display_name": entry.name, "description": entry.description[:500]}
        if spec.command and not self._may(ask, entry):
            hint = f"Whoever runs the gateway types: trunkline install {entry.id}"
            raise RefusedError("What is started here is not installed over the API.", status=403, hint=hint)
        made = await put_server(self._relay, ask, wanted, user, replace=False)
        return Given(shown(made), 201, made.version)

    async def _entry(self, ask: Ask) -> RegistryEntry:
        found = await self._client().get_entry(ask.names["name"][:LONGEST_QUERY])
        if found is None:
            raise NotFoundError(f"There is no server {ask.names['name']!r} to install.")
        return found

    def _may(self, ask: Ask, entry: RegistryEntry) -> bool:
        starts = "http" not in entry.transports and "sse" not in entry.transports
        return not starts or (ask.scope.role == "admin" and self._relay.config.gateway.allow_commands)

    def _shown(self, entry: RegistryEntry) -> ShownEntry:
        own = {name: getattr(entry, name) for name in _TEXTS}
        lists = {name: list(getattr(entry, name)) for name in ("categories", "tags", "tools", "transports")}
        installed = any(spec.url == entry.url for spec in self._relay.config.servers.values()) if entry.url else False
        remote = "http" in entry.transports or "sse" in entry.transports
        packages = {"npm": entry.npm_package, "pypi": entry.pypi_package}
        told: dict[str, Any] = {"name": entry.id, "title": entry.name, "verified": entry.verified}
        told |= {"packages": [kind for kind, package in packages.items() if package]}
        made: ShownEntry = {**own, **lists, **told, "installed": installed, "remote": remote}  # type: ignore[typeddict-item] - the fields are the same
        return made


_TEXTS = ("description", "version", "author", "homepage", "repository", "status", "source")


def _wanted(one: Variable) -> WantedValue:
    return {
        "name": one.name,
        "description": one.description,
        "required": one.required,
        "secret": one.secret,
        "default": one.default,
        "choices": list(one.choices),
        "repeated": one.repeated,
    }
