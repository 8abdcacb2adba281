"""Checks the arguments of a call against the tool's schema, and asks a person for those that are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from trunkline.call.middleware.chain import CallNext, ToolContext, ToolMiddleware
from trunkline.call.middleware.logs import one_line
from trunkline.errors import ConfigError, InvalidArgumentsError
from trunkline.questions.fields import FormField, Secret, SelectOption
from trunkline.tool import Tool, ToolResult
from trunkline.tools.check.checker import Checker, checker_for
from trunkline.untrusted import as_list


def create_validation_middleware(*, elicit_missing: bool = True, timeout: float = 60.0) -> ToolMiddleware:
    """Raises InvalidArgumentsError, and runs nothing, unless the arguments fit the whole schema."""
    if not timeout > 0:
        raise ConfigError(f"`timeout` is {timeout!r}.", hint="Give a person more than 0 seconds.")

    async def validate(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        checker = checker_for(tool.input_schema)
        if checker.reason:
            raise InvalidArgumentsError(
                f"Tool {tool.name!r} cannot be used: {checker.reason}", hint="Whoever runs its server can simplify it."
            )
        given = dict(params)
        if elicit_missing and context.elicitation is not None:
            given |= await _filled_in(tool, checker, given, context, timeout)
        if problems := checker.problems(given):
            raise InvalidArgumentsError(
                f"The arguments do not fit tool {tool.name!r}: {'; '.join(problems)}.",
                hint="Look at its input schema.",
            )
        return await call_next(given)

    return validate


async def _filled_in(
    tool: Tool, checker: Checker, given: Mapping[str, Any], context: ToolContext, timeout: float
) -> dict[str, Any]:
    """What a person fills in for arguments that are missing; kept for further attempts of the same call."""
    async with context.asking:
        missing = [name for name in checker.missing(given) if name not in context.answers]
        fields = [field for name in missing if (field := _field(name, tool.input_schema)) is not None]
        if missing and len(fields) == len(missing) and context.elicitation is not None:
            answer = await context.elicitation.form(
                f"Tool {one_line(tool.name)} needs more to run.",
                fields,
                tool_name=tool.name,
                server_id=context.server or tool.server,
                timeout=timeout,
            )
            context.answers.update({name: _revealed(value) for name, value in (answer or {}).items()})
    return {name: value for name, value in context.answers.items() if name not in given}


def _field(name: str, schema: Mapping[str, Any]) -> FormField | None:
    """The field of a form for an argument; `None` for what nobody can type in, such as an object."""
    properties = schema.get("properties")
    found: Any = cast("Mapping[str, Any]", properties).get(name) if isinstance(properties, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    rules = cast("Mapping[str, Any]", found)
    label = _text(rules.get("title"))
    about = _text(rules.get("description"))
    options = _options(rules.get("enum"))
    if options:
        return FormField(name, label, "select", True, options=options, description=about)
    match rules.get("type"), rules.get("format"):
        case ("integer" | "number" | "boolean") as type_, _:
            pass
        case "string", ("date" | "password") as type_:
            pass
        case "string", _:
            type_ = "text"
        case _:
            return None
    return FormField(name, label, type_, True, description=about)


def _options(values: Any) -> tuple[SelectOption, ...]:
    """The choices of an argument, where all are texts."""
    listed = as_list(values)
    if not all(isinstance(value, str) for value in listed):
        return ()
    return tuple(SelectOption(value) for value in dict.fromkeys(cast("list[str]", listed)))


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""


def _revealed(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else value


validation_middleware = create_validation_middleware()
"""Checks arguments, and asks for missing ones where somebody can be asked."""
