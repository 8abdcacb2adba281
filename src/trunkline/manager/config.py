"""A server as ART describes it, and the same as it is registered here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from trunkline.config.oauth import OAuthSpec
from trunkline.config.server import ServerSpec
from trunkline.errors import ConfigError
from trunkline.identity import unit_name
from trunkline.tenancy.servers import Registration, TrustLevel
from trunkline.tool import NO_OPTIONS, ToolOptions

TRANSPORTS = {"streamable-http": "http", "sse": "sse"}
"""What a server of this description can be reached by, and what that is called here."""
_DEFAULT_TIMEOUT = ServerSpec().timeout


@dataclass(frozen=True)
class McpConnection:
    """Where a server is, and what requests to it carry."""

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Kept sealed."""
    oauth: OAuthSpec = field(default_factory=OAuthSpec)
    """How to sign in to it, where its own word is not enough. Kept sealed."""


@dataclass(frozen=True)
class McpToolDefinition:
    """What is said of a tool before its server was ever reached; what is left out, its server says."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    defer_loading: bool | None = None
    allowed_callers: tuple[str, ...] | None = None
    """Who may call it: `direct`, or a program by its vendor's name."""
    input_examples: tuple[Mapping[str, Any], ...] = ()
    when_to_use: str = ""
    tags: tuple[str, ...] = ()
    estimated_cost: float | None = None


@dataclass(frozen=True)
class McpServerConfig:
    """A server to be registered."""

    id: str
    connection: McpConnection
    type: Literal["streamable-http", "sse", "stdio"] = "streamable-http"
    """`stdio` is said of servers that were registered with a command; none can be registered so here."""
    enabled: bool = True
    display_name: str = ""
    description: str = ""
    defer_loading: bool = False
    """Its tools are not loaded at once, but when a prompt needs them."""
    trust_level: TrustLevel = ""
    tags: tuple[str, ...] = ()
    tools: tuple[McpToolDefinition, ...] = ()
    """Tools that it is known to have."""
    timeout: float = _DEFAULT_TIMEOUT
    """Seconds that a call may go without a sign of life."""

    @classmethod
    def parse(cls, given: McpServerConfig | Mapping[str, Any]) -> McpServerConfig:
        """The same of what was read from anywhere, under the names of the fields; what is unknown is refused."""
        if isinstance(given, McpServerConfig):
            return given
        said = cast("dict[str, Any]", msgspec.to_builtins(dict(given)))
        try:
            read = msgspec.convert(said, cls)
        except msgspec.ValidationError as error:
            if str(error).endswith("`$.type`"):
                raise _unsupported(said.get("type")) from None
            raise ConfigError(f"Server {said.get('id', '')!r}: {error}.") from error
        _refuse_unknown(said, cls, "A server")
        _refuse_unknown(said["connection"], McpConnection, "A connection")
        _refuse_unknown(said["connection"].get("oauth", {}), OAuthSpec, "A sign-in")
        for tool in said.get("tools", ()):
            _refuse_unknown(tool, McpToolDefinition, "A tool")
        return read

    def written(self) -> dict[str, Any]:
        """The same as `Hub.register_server` takes it, with everything said."""
        if self.type not in TRANSPORTS:
            raise _unsupported(self.type)
        if not self.connection.url:
            raise ConfigError(f"Server {self.id!r} has no address.", hint="Give its `connection` a `url`.")
        return {
            "name": self.id,
            "url": self.connection.url,
            "headers": dict(self.connection.headers),
            "oauth": _said(self.connection.oauth),
            "transport": TRANSPORTS[self.type],
            "enabled": self.enabled,
            "display_name": self.display_name,
            "description": self.description,
            "trust_level": self.trust_level,
            "tags": list(self.tags),
            "timeout": self.timeout,
            "defer_loading": self.defer_loading,
            "minimal_tools": [*map(_minimal, self.tools)],
            "tools": {tool.name: said for tool in self.tools if (said := _options(tool))},
        }


def config_of(registration: Registration) -> McpServerConfig:
    """A registered server as ART describes it."""
    spec, about = registration.spec, registration.about
    kinds = {kind: type for type, kind in TRANSPORTS.items()}
    return McpServerConfig(
        unit_name(spec.name),
        McpConnection(spec.url, spec.headers, spec.oauth),
        cast("Any", kinds.get(spec.kind, "stdio")),
        spec.enabled,
        about.display_name,
        about.description,
        bool(spec.defer_loading),
        about.trust_level,
        about.tags,
        tuple(_tool(item, spec.tools.get(str(item["name"]))) for item in spec.minimal_tools),
        spec.timeout,
    )


def _said(oauth: OAuthSpec) -> dict[str, Any]:
    """What `[servers.NAME.oauth]` would say."""
    said: dict[str, Any] = msgspec.to_builtins(oauth)
    return {name: value for name, value in said.items() if value != getattr(OAuthSpec(), name) and value != []}


def _minimal(tool: McpToolDefinition) -> dict[str, Any]:
    """A tool as a server would list it."""
    said = {"description": tool.description, "inputSchema": tool.input_schema, "outputSchema": tool.output_schema}
    return {"name": tool.name, **{key: value for key, value in said.items() if value}}


def _options(tool: McpToolDefinition) -> dict[str, Any]:
    """What `[servers.NAME.tools.TOOL]` would say of it."""
    said: dict[str, Any] = msgspec.to_builtins(
        {
            "defer_loading": tool.defer_loading,
            "allowed_callers": tool.allowed_callers,
            "input_examples": tool.input_examples or None,
            "when_to_use": tool.when_to_use or None,
            "tags": tool.tags or None,
            "cost_hint": tool.estimated_cost,
        }
    )
    return {key: value for key, value in said.items() if value is not None}


def _tool(item: Mapping[str, Any], options: ToolOptions | None) -> McpToolDefinition:
    said = options or NO_OPTIONS
    return McpToolDefinition(
        str(item["name"]),
        str(item.get("description", "")),
        item.get("inputSchema"),
        item.get("outputSchema"),
        said.defer_loading,
        said.allowed_callers,
        said.input_examples,
        said.when_to_use,
        said.tags,
        said.cost_hint,
    )


def _refuse_unknown(given: Mapping[str, Any], fields: type[Any], what: str) -> None:
    known = [one.name for one in dataclasses.fields(fields)]
    for name in given:
        if name not in known:
            raise ConfigError(f"{what} has no {name!r}.", hint=f"There are: {', '.join(known)}.")


def _unsupported(type: object) -> ConfigError:
    return ConfigError(
        f"There is no transport {type!r} for servers that are registered so.",
        hint="Use `streamable-http` or `sse`; servers that are started here are registered with `Hub.register_server`.",
    )
