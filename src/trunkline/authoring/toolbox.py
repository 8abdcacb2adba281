"""A server's tools: taken in, looked up, and called with arguments that fit."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from trunkline.authoring.content import Block, result_of
from trunkline.authoring.context import Limited
from trunkline.errors import ConfigError, InvalidArgumentsError
from trunkline.tool import Annotations, Tool, ToolResult
from trunkline.tools.annotations import effective, merge_annotations, validate_annotations
from trunkline.tools.check.checker import checker_for
from trunkline.tools.convert.function import create_tool_from_function
from trunkline.tools.names import validate_tool_name
from trunkline.workers import is_async, run


class Toolbox:
    """Tools by name, in the order they came."""

    def __init__(self, server: str, category: str, defaults: Annotations) -> None:
        self._server, self._category, self._defaults = server, category, defaults
        self._tools: dict[str, Tool] = {}

    @property
    def tools(self) -> list[Tool]:
        """All of them."""
        return list(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """The tool of that name, if there is one."""
        return self._tools.get(name)

    def add(self, source: Tool | Callable[..., Any], **options: Any) -> Tool:
        """Take in a tool, or a function with the options of `create_tool_from_function`."""
        tool = source if isinstance(source, Tool) else tool_of(source, **options)
        self._check(tool)
        tool = dataclasses.replace(
            tool,
            server=self._server,
            category=tool.category or self._category,
            annotations=annotated(tool.annotations, tool.name, tool.description, tool.input_schema, self._defaults),
        )
        problems = validate_annotations(tool.annotations)
        if problems:
            raise ConfigError(f"The annotations of tool {tool.name!r} are wrong: {' '.join(problems)}")
        self._tools[tool.name] = tool
        return tool

    def limit(self, tool: Tool, default: float) -> float:
        """Seconds that a call of it may take."""
        return tool.execute.seconds if isinstance(tool.execute, Limited) else default

    def remove(self, name: str) -> bool:
        """Give a tool up; false when there is none."""
        return self._tools.pop(name, None) is not None

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        """What a tool answers; whatever it raises is raised."""
        assert tool.execute is not None, "a tool without a function is not taken in"
        problems = checker_for(tool.input_schema).problems(arguments)
        if problems:
            raise InvalidArgumentsError(f"The arguments of {tool.name!r} do not fit: {'; '.join(problems)}.")
        result = result_of(await run(tool.execute, dict(arguments)))
        if tool.output_schema is not None and not result.is_error:
            wrong = checker_for(tool.output_schema).problems(result.structured)
            if wrong:
                raise RuntimeError(f"The answer of {tool.name!r} is not as it promises: {'; '.join(wrong)}.")
        return result

    def _check(self, tool: Tool) -> None:
        name = validate_tool_name(tool.name)
        if not name.valid:
            raise ConfigError(f"A tool cannot be called {tool.name!r}: {' '.join(name.errors)}")
        if tool.name in self._tools:
            raise ConfigError(
                f"Server {self._server!r} already has a tool {tool.name!r}.", hint="Remove it first, or rename one."
            )
        if tool.execute is None:
            raise ConfigError(f"Tool {tool.name!r} does nothing.", hint="Give it an `execute`.")
        if tool.input_schema.get("type") != "object":
            raise ConfigError(
                f"The schema of tool {tool.name!r} is not of an object.", hint='Write `"type": "object"`.'
            )
        for schema in (tool.input_schema, *([tool.output_schema] if tool.output_schema is not None else [])):
            reason = checker_for(schema).reason
            if reason:
                raise ConfigError(f"Tool {tool.name!r} cannot be offered: {reason}")


def annotated(
    given: Annotations, name: str, description: str, schema: Mapping[str, Any], defaults: Annotations
) -> Annotations:
    """What was given, behind it what the words say, and behind all the defaults."""
    said = effective(given, name, description, schema)
    if said.destructive_hint:
        defaults = dataclasses.replace(defaults, read_only_hint=None)
    if said.read_only_hint:
        defaults = dataclasses.replace(defaults, destructive_hint=None)
    return merge_annotations(defaults, said)


def tool_of(function: Callable[..., Any], **options: Any) -> Tool:
    """A function as a tool, if need be with a `timeout` of its own; an async one stays on the loop."""
    timeout = options.pop("timeout", None)
    tool = create_tool_from_function(_plain(function), **options)
    execute = tool.execute
    assert execute is not None, "it runs the function"

    async def awaited(arguments: dict[str, Any]) -> Any:
        return await execute(arguments)

    ran = awaited if is_async(function) else execute
    return dataclasses.replace(tool, execute=ran if timeout is None else Limited(ran, timeout))


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but that it does not say what it returns where that is content: it is no structured result."""
    try:
        returns = get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):
        return function  # whoever makes a tool of it says what is wrong
    if not _is_content(returns):
        return function

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    called.__annotations__ = {name: kind for name, kind in called.__annotations__.items() if name != "return"}
    return called


def _is_content(kind: Any) -> bool:
    return kind in (ToolResult, *get_args(Block)) or any(_is_content(part) for part in get_args(kind))
