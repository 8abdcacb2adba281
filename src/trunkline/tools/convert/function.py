"""Tools out of plain Python functions: their types become the schema, their docstrings the descriptions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, TypedDict, Union, Unpack, cast, get_args, get_origin, get_type_hints, overload

import msgspec

from trunkline.errors import ConfigError, InvalidArgumentsError
from trunkline.tool import UNKNOWN, Annotations, Tool
from trunkline.tools.annotations import effective
from trunkline.tools.convert.docstring import read_docstring

Function = Callable[..., Any]


class ToolDetails(TypedDict, total=False):
    """What can be said of a tool beside its function, name and description."""

    parameters: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    annotations: Annotations
    category: str
    meta: Mapping[str, Any] | None
    infer_annotations: bool


@overload
def create_tool_from_function(
    source: Function, /, *, name: str = "", description: str = "", **details: Unpack[ToolDetails]
) -> Tool: ...


@overload
def create_tool_from_function(
    source: str, description: str, fn: Function, /, **details: Unpack[ToolDetails]
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
        schema, output = signature.schema, output_schema or signature.output
        execute = _typed(named, function, signature)
    else:
        schema, output, execute = parameters, output_schema, _untyped(function, parameters)
    hints = effective(annotations, named, told, schema) if infer_annotations else annotations
    return Tool(
        named, told, schema, hints, category=category, execute=execute, output_schema=output, meta=dict(meta or {})
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


_REFERENCES = "#/$defs/{name}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function."""

    name: str
    types: tuple[Any, ...]
    """What it may be: one type, or several that cannot be told apart by their look and are tried in order."""
    required: bool = True
    default: Any = None
    positional_only: bool = False

    def convert(self, value: Any, tool: str) -> Any:
        """The JSON value as the type that the function declares."""
        for kind in self.types:
            try:
                return msgspec.convert(value, kind)
            except msgspec.ValidationError:
                continue
        # The reason would quote the value, and values may be secrets.
        raise InvalidArgumentsError(
            f"The argument {self.name!r} of tool {tool!r} does not fit its type.", hint="Look at the tool's schema."
        )


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives."""

    parameters: Mapping[str, Parameter]
    others: Parameter | None
    """The type of arguments that have no parameter of their own, where the function takes such."""
    schema: Mapping[str, Any]
    output: Mapping[str, Any] | None
    """The schema of its result, if that is an object."""


def read_signature(function: Callable[..., Any], tool: str, words: Mapping[str, str]) -> Signature:
    """The signature of a function; a `ConfigError` says which parameter cannot be described."""
    try:
        declared = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise _unclear(tool, "it does not say what it takes") from error
    hints = _hints(function, tool)
    parameters: dict[str, Parameter] = {}
    others: Parameter | None = None
    for given in declared.parameters.values():
        kind = hints.get(given.name, Any)
        if given.kind is inspect.Parameter.VAR_POSITIONAL:
            raise _unclear(tool, f"`*{given.name}` has no names")
        if given.kind is inspect.Parameter.VAR_KEYWORD:
            others = Parameter(given.name, _alternatives(kind))
            continue
        parameters[given.name] = Parameter(
            given.name,
            _alternatives(kind),
            required=given.default is inspect.Parameter.empty,
            default=given.default,
            positional_only=given.kind is inspect.Parameter.POSITIONAL_ONLY,
        )
    texts = {name: _text_of(hints.get(name)) or words.get(name, "") for name in parameters}
    return Signature(parameters, others, _schema(tool, parameters, others, texts), _output(hints.get("return")))


def _schema(
    tool: str, parameters: Mapping[str, Parameter], others: Parameter | None, texts: Mapping[str, str]
) -> dict[str, Any]:
    everyone = [*parameters.values(), *([others] if others else [])]
    schemas, definitions = _described(tool, everyone)
    result: dict[str, Any] = {"type": "object", "properties": {}}
    for parameter, schema in zip(parameters.values(), schemas, strict=False):
        about = {"description": texts[parameter.name]} if texts[parameter.name] else {}
        result["properties"][parameter.name] = schema | about | _default(parameter)
    required = [name for name, parameter in parameters.items() if parameter.required]
    if required:
        result["required"] = required
    result["additionalProperties"] = (schemas[-1] or True) if others else False
    return result | ({"$defs": definitions} if definitions else {})


def _described(tool: str, parameters: list[Parameter]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    flat = [kind for parameter in parameters for kind in parameter.types]
    try:
        schemas, definitions = msgspec.json.schema_components(flat, ref_template=_REFERENCES)
    except TypeError as error:
        raise _unclear(tool, f"of a type in it: {error}") from error
    rest = iter(schemas)
    result: list[dict[str, Any]] = []
    for parameter in parameters:
        own = [next(rest) for _ in parameter.types]
        result.append(dict(own[0]) if len(own) == 1 else {"anyOf": own})
    return result, definitions


def _output(kind: Any) -> dict[str, Any] | None:
    """Only objects: revisions of MCP before 2026-07-28 know no other structured results."""
    if kind in (None, NoneType, Any):
        return None
    try:
        (schema,), definitions = msgspec.json.schema_components([kind], ref_template=_REFERENCES)
    except TypeError:
        # A result need not be described: a tool may answer anything.
        return None
    reference = str(schema.get("$ref", ""))
    if reference:
        name = reference.removeprefix("#/$defs/")
        schema = definitions[name]
        used = f'"{reference}"'.encode() in msgspec.json.encode(definitions)
        definitions = definitions if used else {other: about for other, about in definitions.items() if other != name}
    if schema.get("type") != "object":
        return None
    return schema | ({"$defs": definitions} if definitions else {})


def _default(parameter: Parameter) -> dict[str, Any]:
    if parameter.required:
        return {}
    try:
        return {"default": msgspec.to_builtins(parameter.default)}
    except TypeError:
        # A default that is no JSON is the function's own affair.
        return {}


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """Several types where one look at a value does not tell which it is: two dataclasses, for example."""
    if kind is object:
        return (Any,)
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(bare) not in (Union, UnionType):
        return (kind,)
    try:
        msgspec.json.schema_components([bare], ref_template=_REFERENCES)
    except TypeError:
        return get_args(bare)
    return (kind,)


def _hints(function: Callable[..., Any], tool: str) -> dict[str, Any]:
    target: Any = function
    while isinstance(target, functools.partial):
        target = cast("functools.partial[Any]", target).func
    if not hasattr(target, "__annotations__") and not inspect.isclass(target):
        target = getattr(target, "__call__", target)  # noqa: B004 # an object is described by its `__call__`
    try:
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise _unclear(tool, f"its types name {error.name!r}, which is not known where it was written") from error
    except TypeError as error:
        raise _unclear(tool, "its types cannot be read") from error


def _text_of(kind: Any) -> str:
    """The text in `Annotated[int, "How many."]`."""
    extras = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    return next((extra for extra in extras if isinstance(extra, str)), "")


def _unclear(tool: str, why: str) -> ConfigError:
    return ConfigError(f"The function of tool {tool!r} cannot be described: {why}.", hint="Give its `parameters`.")
