"""Tools out of plain Python functions: their types become the schema, their docstrings the descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, overload

import msgspec

from trunkline.errors import ConfigError, InvalidArgumentsError
from trunkline.tool import UNKNOWN, Annotations, Tool
from trunkline.tools.annotations import effective
from trunkline.tools.convert.docstring import read_docstring
from trunkline.tools.convert.signature import Signature, read_signature

Function = Callable[..., Any]


@overload
def create_tool_from_function(
    source: Function,
    /,
    *,
    name: str = "",
    description: str = "",
    parameters: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    annotations: Annotations = UNKNOWN,
    category: str = "",
    meta: Mapping[str, Any] | None = None,
    infer_annotations: bool = True,
) -> Tool: ...


@overload
def create_tool_from_function(
    source: str,
    description: str,
    fn: Function,
    /,
    *,
    parameters: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    annotations: Annotations = UNKNOWN,
    category: str = "",
    meta: Mapping[str, Any] | None = None,
    infer_annotations: bool = True,
) -> Tool: ...


def create_tool_from_function(
    source: Function | str,
    about: str = "",
    fn: Function | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    parameters: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    annotations: Annotations = UNKNOWN,
    category: str = "",
    meta: Mapping[str, Any] | None = None,
    infer_annotations: bool = True,
) -> Tool:
    """A tool that runs a function, sync or async.

    Without `parameters` the schema comes from the function's types, and arguments are checked and turned into them;
    such a tool raises `InvalidArgumentsError` before the function runs. With `parameters` the function is called as
    that schema says: by keywords, or, if it has one parameter that the schema does not name, with all arguments as
    one dict. There is no time limit here: give calls one of their own.
    """
    function = source if not isinstance(source, str) else fn
    if function is None:
        raise ConfigError(f"Tool {source!r} has no function.", hint="Give a name, a description and a function.")
    named = source if isinstance(source, str) else name or getattr(function, "__name__", "")
    if not named or named == "<lambda>":
        raise ConfigError("The function has no name of its own.", hint="Give the tool a `name`.")
    words = read_docstring(inspect.getdoc(function) if hasattr(function, "__name__") else None)
    told = about or description or words.text
    if parameters is None:
        signature = read_signature(function, named, words.parameters)
        schema, output, execute = (
            signature.schema,
            output_schema or signature.output,
            _typed(named, function, signature),
        )
    else:
        schema, output, execute = parameters, output_schema, _untyped(function, parameters)
    hints = effective(annotations, named, told, schema) if infer_annotations else annotations
    return Tool(
        named,
        told,
        schema,
        hints,
        category=category,
        execute=execute,
        output_schema=output,
        meta=dict(meta or {}),
    )


def _typed(tool: str, function: Function, signature: Signature) -> Callable[[dict[str, Any]], Any]:
    def prepare(arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        unknown = [name for name in arguments if name not in signature.parameters]
        if unknown and signature.others is None:
            raise InvalidArgumentsError(
                f"Tool {tool!r} has no argument {unknown[0]!r}.", hint=f"It takes: {', '.join(signature.parameters)}."
            )
        for name, parameter in signature.parameters.items():
            if name in arguments:
                value = parameter.convert(arguments[name], tool)
            elif parameter.required:
                raise InvalidArgumentsError(f"Tool {tool!r} wants the argument {name!r}.", hint="Give it a value.")
            elif not parameter.positional_only:
                continue
            else:
                value = parameter.default
            if parameter.positional_only:
                positional.append(value)
            else:
                named[name] = value
        if signature.others is not None:
            named |= {name: signature.others.convert(arguments[name], tool) for name in unknown}
        return positional, named

    async def finish(result: Awaitable[Any]) -> Any:
        return finished(await result)

    def finished(result: Any) -> Any:
        return msgspec.to_builtins(result) if signature.output is not None else result

    def execute(arguments: dict[str, Any]) -> Any:
        positional, named = prepare(arguments)
        result = function(*positional, **named)
        return finish(result) if inspect.isawaitable(result) else finished(result)

    return execute


def _untyped(function: Function, schema: Mapping[str, Any]) -> Callable[[dict[str, Any]], Any]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        # Some functions written in C do not say what they take.
        return lambda arguments: function(**arguments)
    lone = len(parameters) == 1 and parameters[0].kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    if lone and parameters[0].name not in schema.get("properties", {}):
        return function
    return lambda arguments: function(**arguments)
