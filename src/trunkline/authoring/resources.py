"""Resources: what a server lets callers read, at fixed addresses or at all that fit a template."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from trunkline.authoring.content import contents, plain_json
from trunkline.errors import ConfigError
from trunkline.tools.uri_templates import UriTemplate
from trunkline.workers import run

Reader = Callable[[str, Mapping[str, str]], Any | Awaitable[Any]]
"""Takes the address and the template's variables; gives text, bytes, `ResourceContent`, a list of them, or JSON."""


@dataclass(frozen=True, slots=True)
class ResourceContent:
    """What a resource holds: text or bytes."""

    uri: str
    text: str = ""
    blob: bytes | None = None
    mime_type: str = ""

    def to_mcp(self) -> dict[str, Any]:
        """As MCP writes it."""
        return contents(self.uri, self.text if self.blob is None else self.blob, self.mime_type)


@dataclass(frozen=True)
class Resource:
    """Something to read at one address."""

    uri: str
    name: str
    reader: Reader
    description: str = ""
    mime_type: str = ""
    title: str = ""
    dynamic: bool = True
    """Whether two readings may differ."""

    def __post_init__(self) -> None:
        _check_uri(self.uri)
        _check_reader(self.uri, self.reader)

    def to_mcp(self) -> dict[str, Any]:
        """As MCP lists it."""
        return {"uri": self.uri, "name": self.name or self.uri} | _about(self)


@dataclass(frozen=True)
class ResourceTemplate:
    """Something to read at every address that fits a template."""

    uri_template: str
    name: str
    reader: Reader
    description: str = ""
    mime_type: str = ""
    title: str = ""
    template: UriTemplate = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_uri(self.uri_template)
        _check_reader(self.uri_template, self.reader)
        object.__setattr__(self, "template", UriTemplate(self.uri_template))

    def to_mcp(self) -> dict[str, Any]:
        """As MCP lists it."""
        return {"uriTemplate": self.uri_template, "name": self.name or self.uri_template} | _about(self)


def create_text_resource(
    uri: str,
    name: str,
    content: str | Callable[[], str | Awaitable[str]],
    *,
    description: str = "",
    mime_type: str = "text/plain",
    dynamic: bool | None = None,
) -> Resource:
    """A resource of text, given or made at each reading."""
    return _created(uri, name, content, str, description, mime_type, dynamic)


def create_json_resource(
    uri: str,
    name: str,
    content: Any,
    *,
    description: str = "",
    mime_type: str = "application/json",
    dynamic: bool | None = None,
) -> Resource:
    """A resource of JSON, given or made at each reading by a function."""
    return _created(uri, name, content, written_json, description, mime_type, dynamic)


def read_contents(uri: str, mime_type: str, value: Any) -> list[ResourceContent]:
    """What a reader gave, as contents."""
    if isinstance(value, ResourceContent):
        return [value]
    if isinstance(value, str):
        return [ResourceContent(uri, value, mime_type=mime_type or "text/plain")]
    if isinstance(value, bytes):
        return [ResourceContent(uri, blob=value, mime_type=mime_type or "application/octet-stream")]
    if isinstance(value, list | tuple):
        parts = list(cast("list[Any]", value))
        if parts and all(isinstance(part, ResourceContent) for part in parts):
            return parts
    return [ResourceContent(uri, written_json(value), mime_type=mime_type or "application/json")]


def written_json(value: Any) -> str:
    """JSON for people: two blanks for each level."""
    return msgspec.json.format(msgspec.json.encode(plain_json(value)), indent=2).decode()


def _created(
    uri: str,
    name: str,
    content: Any,
    write: Callable[[Any], str],
    description: str,
    mime_type: str,
    dynamic: bool | None,
) -> Resource:
    made = callable(content)
    fixed = "" if made else write(content)  # now, so that what the author changes later is not half shown

    async def read(uri: str, variables: Mapping[str, str]) -> str:
        return write(await run(content)) if made else fixed

    return Resource(uri, name, read, description, mime_type, dynamic=made if dynamic is None else dynamic)


def _about(resource: Resource | ResourceTemplate) -> dict[str, Any]:
    told = {"title": resource.title, "description": resource.description, "mimeType": resource.mime_type}
    return {name: value for name, value in told.items() if value}


def _check_uri(uri: str) -> None:
    if not re.match(r"[a-zA-Z][a-zA-Z0-9+.\-]*:.", uri) or any(letter.isspace() for letter in uri):
        raise ConfigError(f"{uri!r} is no address.", hint="Write it like `config://app/settings`.")


def _check_reader(uri: str, reader: Any) -> None:
    if not callable(reader):
        raise ConfigError(f"The resource {uri!r} has no reader.", hint="Give it a function of address and variables.")
