"""The same server by decorators: `@server.tool`, `@server.resource`, `@server.prompt`, `@server.completion`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, overload

from trunkline.authoring.prompts import Prompt, PromptArgument
from trunkline.authoring.resources import Resource, ResourceTemplate
from trunkline.authoring.server import MCPServerBase, MCPServerBaseConfig
from trunkline.errors import ConfigError
from trunkline.tools.convert.docstring import read_docstring
from trunkline.tools.uri_templates import UriTemplate
from trunkline.workers import run

F = TypeVar("F", bound=Callable[..., Any])


class ToolServer(MCPServerBase):
    """A server to hang functions on, which stay as they are. Its options are those of `MCPServerBaseConfig`."""

    def __init__(self, id: str, description: str = "", **options: Any) -> None:
        super().__init__(MCPServerBaseConfig(id, description=description), **options)

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, function: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Make a function a tool; options are those of `create_tool_from_function`."""

        def decorate(function: F) -> F:
            self.register_tool(function, **options)
            return function

        return decorate if function is None else decorate(function)

    def resource(
        self, uri: str, *, name: str = "", description: str = "", mime_type: str = "", title: str = ""
    ) -> Callable[[F], F]:
        """Read an address with a function, or all that fit a template, whose variables are its parameters."""

        def decorate(function: F) -> F:
            called, told = _about(function, name, description)
            wanted = UriTemplate(uri).variables
            read = _reader(function, uri, wanted)
            if wanted:
                self.capabilities.register_resource_template(
                    ResourceTemplate(uri, called, read, told, mime_type, title)
                )
            else:
                self.capabilities.register_resource(Resource(uri, called, read, told, mime_type, title))
            return function

        return decorate

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self, function: None = None, /, *, name: str = "", description: str = "", title: str = ""
    ) -> Callable[[F], F]: ...
    def prompt(
        self, function: F | None = None, /, *, name: str = "", description: str = "", title: str = ""
    ) -> F | Callable[[F], F]:
        """Make a function a prompt; its parameters are the arguments, which are texts."""

        def decorate(function: F) -> F:
            called, told = _about(function, name, description)
            words = read_docstring(inspect.getdoc(function)).parameters
            arguments = tuple(
                PromptArgument(one.name, words.get(one.name, ""), one.default is one.empty)
                for one in _parameters(function)
            )
            self.capabilities.register_prompt(Prompt(called, _by_name(function), told, arguments, title))
            return function

        return decorate if function is None else decorate(function)

    def completion(self, reference: str, argument: str) -> Callable[[F], F]:
        """Complete an argument of a prompt or a template: the function takes what was typed so far.

        With a second parameter it also gets the other arguments.
        """

        def decorate(function: F) -> F:
            alone = len(_parameters(function)) < 2

            async def complete(value: str, others: Mapping[str, str]) -> Any:
                return await run(function, value) if alone else await run(function, value, others)

            self.capabilities.register_completion(reference, argument, complete)
            return function

        return decorate


def _about(function: Callable[..., Any], name: str, description: str) -> tuple[str, str]:
    called = name or getattr(function, "__name__", "")
    if not called or called == "<lambda>":
        raise ConfigError("The function has no name of its own.", hint="Give a `name`.")
    return called, description or read_docstring(inspect.getdoc(function)).text


def _reader(function: Callable[..., Any], uri: str, wanted: tuple[str, ...]) -> Callable[..., Any]:
    """A reader that gives the function the variables that it names; `uri` is the address itself."""
    parameters = _parameters(function)
    for one in parameters:
        if one.name not in (*wanted, "uri") and one.default is one.empty:
            raise ConfigError(f"The reader of {uri!r} wants {one.name!r}, which is no variable of it.")
    missing = [name for name in wanted if name not in {one.name for one in parameters}]
    if missing:
        raise ConfigError(f"The reader of {uri!r} does not take {missing[0]!r}.", hint="Name it as a parameter.")
    takes_uri = "uri" in {one.name for one in parameters} and "uri" not in wanted

    async def read(uri: str, variables: Mapping[str, str]) -> Any:
        return await run(function, **variables, **({"uri": uri} if takes_uri else {}))

    return read


def _by_name(function: Callable[..., Any]) -> Callable[[Mapping[str, str]], Any]:
    async def generate(given: Mapping[str, str]) -> Any:
        return await run(function, **given)

    return generate


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY) for one in found):
        name = cast("str", getattr(function, "__name__", "the function"))
        raise ConfigError(f"{name} takes arguments without names.", hint="Name each parameter.")
    return found
