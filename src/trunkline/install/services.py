"""Servers that a discovery endpoint offers: looked at when somebody asks, registered when somebody says so."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from trunkline.config.options import Config
from trunkline.config.reading import server_of
from trunkline.config.server import ServerSpec, shown_url
from trunkline.config.tenancy import DiscoverySection
from trunkline.errors import ConfigError, NotFoundError, ProtocolError, RefusedError, UnreachableError, UpstreamError
from trunkline.identity import unit_name
from trunkline.install.marketplace.remote import exchange
from trunkline.tenancy.servers import About, Registration, split_tools
from trunkline.untrusted import as_object
from trunkline.upstream.http1 import HttpClient, request_bytes
from trunkline.upstream.origin import split_url
from trunkline.version import __version__

LARGEST_ANSWER = 4 * 2**20
"""Bytes that the endpoint's answer may have."""
MOST_SERVICES = 1_000
KIND = "MCP_SERVICE"
"""What a service that speaks MCP calls itself; others are not for us."""

T = TypeVar("T")


@dataclass(frozen=True)
class Service:
    """A server that an endpoint offers."""

    name: str
    """What it is registered as."""
    wanted: Mapping[str, Any]
    """What it is registered with."""
    registered: bool = False
    problem: str = ""
    """Why it cannot be registered; empty when it can."""

    @property
    def address(self) -> str:
        """Where it is, or what is started, for people."""
        command = " ".join([str(self.wanted.get("command", "")), *map(str, self.wanted.get("args", ()))]).strip()
        return shown_url(str(self.wanted.get("url", ""))) or command


class ServiceDirectory(Generic[T]):
    """What the endpoint of a configuration offers, and which of it was registered.

    `kept` gives a user's registered servers, or everybody's; `put` registers one.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        kept: Callable[[str], Awaitable[Iterable[Registration]]],
        taken: Callable[[], Collection[str]],
        put: Callable[[Mapping[str, Any], str], Awaitable[T]],
    ) -> None:
        self._config, self._kept, self._taken, self._put = config, kept, taken, put

    async def offered(self, user: str = "") -> list[Service]:
        """What is offered, and what of it a user, or everybody, has already. Nothing is started."""
        config = self._config()
        found = read_services(await fetch(config.discovery), allow_commands=config.gateway.allow_commands)
        known = {unit_name(one.spec.name): _address_of(one.spec) for one in await self._kept(user)}
        taken = self._taken() if not user else ()
        return [self._placed(service, known, taken) for service in found]

    async def register(self, name: str, user: str = "") -> T | None:
        """Register one for everybody, or for a user; `None` when it was already, and is left as it is."""
        service = next((one for one in await self.offered(user) if one.name == name), None)
        if service is None:
            raise NotFoundError(f"No service {name!r} is offered.")
        if service.problem:
            raise RefusedError(f"Service {name!r} cannot be registered: {service.problem}", status=409)
        return None if service.registered else await self._put(service.wanted, user)

    @staticmethod
    def _placed(service: Service, known: Mapping[str, str], taken: Collection[str]) -> Service:
        if service.problem:
            return service
        if service.name in taken:
            return dataclasses.replace(service, problem="The configuration has a server or a group of that name.")
        if service.name not in known:
            return service
        if known[service.name] == _where(service.wanted.get("url"), service.wanted.get("command")):
            return dataclasses.replace(service, registered=True)
        return dataclasses.replace(service, problem="Another server is registered under that name; remove it first.")


def _address_of(spec: ServerSpec) -> str:
    """What tells two servers of one name apart: the address without what may be secret, or the command."""
    return _where(spec.url, spec.command)


def _where(url: Any, command: Any) -> str:
    return shown_url(str(url or "")) or str(command or "")


async def fetch(section: DiscoverySection) -> bytes:
    """What the endpoint answers; UpstreamError says why it does not."""
    if not section.url:
        hint = "Set `url` in [discovery], or TRUNKLINE_DISCOVERY_URL."
        raise RefusedError("There is no discovery endpoint.", status=404, hint=hint)
    problem = _address_problem(section.url)
    if problem:
        raise ConfigError(f"The `url` of [discovery] cannot be used: {problem}")
    origin, target = split_url(section.url)
    headers = {b"host": origin.authority.encode(), b"accept": b"application/json"}
    headers[b"user-agent"] = f"trunkline/{__version__}".encode()
    if section.token:
        headers[b"authorization"] = b"Bearer " + section.token.encode()
    where, http = shown_url(section.url), HttpClient()
    try:
        request = request_bytes(b"GET", target, headers, b"")
        status, body, _ = await exchange(http, origin, request, timeout=section.timeout, limit=LARGEST_ANSWER)
    except UpstreamError as error:
        raise UnreachableError(f"The discovery endpoint {where} has no answer for us: {error}.") from error
    finally:
        http.close()
    if status != 200:
        hint = "Set `token` in [discovery]." if status in (401, 403) else ""
        raise UnreachableError(f"The discovery endpoint {where} answered {status}.", hint=hint)
    return body


def read_services(content: bytes, *, allow_commands: bool) -> list[Service]:
    """The services of an answer, each name once: a list, or an object with `services`."""
    try:
        found: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"The discovery endpoint does not answer with JSON: {error}.") from error
    listed: Any = as_object(found).get("services") if isinstance(found, dict) else found
    if not isinstance(listed, list):
        raise ProtocolError("The discovery endpoint answers with no list of services.")
    services: dict[str, Service] = {}
    for entry in cast("list[Any]", listed):
        if as_object(entry).get("service_type") == KIND:
            service = _service(as_object(entry), allow_commands)
            services.setdefault(service.name, service)
        if len(services) > MOST_SERVICES:
            raise ProtocolError(f"The discovery endpoint offers more than {MOST_SERVICES} services.")
    return list(services.values())


def _service(entry: Mapping[str, Any], allow_commands: bool) -> Service:
    connection = as_object(entry.get("connection"))
    name = str(entry.get("id") or entry.get("name") or "")[:200]
    wanted: dict[str, Any] = {
        "name": name,
        "url": connection.get("url"),
        "command": connection.get("command"),
        "args": connection.get("args"),
        "display_name": entry.get("displayName") or entry.get("name"),
        "description": entry.get("description"),
        "tags": entry.get("tags"),
        "tools": entry.get("tools"),
        "trust_level": "community",
        "defer_loading": entry.get("defer_loading", True),
    }
    said = {key: value for key, value in wanted.items() if value not in (None, "", [])}
    return Service(name, said, problem=_problem(said, connection.get("type"), allow_commands))


def _problem(said: Mapping[str, Any], kind: Any, allow_commands: bool) -> str:
    """Why a service cannot be registered: everything in it was written by somebody else."""
    url, command = said.get("url", ""), said.get("command", "")
    if kind not in (None, "streamable-http", "http", "sse", "stdio"):
        return f"it is reached by {str(kind)[:40]!r}, which is not spoken here."
    if command and not allow_commands:
        return "it is a command, and `allow_commands` in [gateway] does not allow any from elsewhere."
    if not isinstance(url, str):
        return "its `url` is no text."
    if url and _address_problem(url):
        return _address_problem(url)
    if "${" in f"{url}{command}{said.get('args', '')}":
        return "it wants to read variables of this machine."
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", str(said["name"]) if "name" in said else ""):
        return "its `id` cannot be a server's name: 1 to 64 letters, digits, dots or dashes."
    try:
        tools: Any = said.get("tools", [])
        minimal, options = split_tools(cast("list[Any]", tools) if isinstance(tools, list) else [tools])
        spec = {key: said[key] for key in ("url", "command", "args", "defer_loading") if key in said}
        server_of(str(said["name"]), {**spec, "minimal_tools": minimal, "tools": options}, {})
        about = {one.name: said[one.name] for one in dataclasses.fields(About) if one.name in said}
        msgspec.convert(about, About)
    except (ConfigError, msgspec.ValidationError) as error:
        return str(error)
    return ""


def _address_problem(url: str) -> str:
    """Why nothing is sent to an address; empty when something may be."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "that is no address."
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        return "that is no plain http address."
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        return "others could read and change what is sent there; it must be https, or on this machine."
    return ""
