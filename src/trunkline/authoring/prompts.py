"""Prompts: texts that a server has ready for people to start with."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from trunkline.authoring.content import Block, block_of
from trunkline.errors import ConfigError, InvalidArgumentsError
from trunkline.tools.names import validate_tool_name

Generator = Callable[[Mapping[str, str]], Any | Awaitable[Any]]
"""Takes the arguments; gives a text, a content block, a `PromptMessage`, a list of them, or a `PromptResult`."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument of a prompt; its value is always text."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt."""

    role: Literal["user", "assistant"]
    content: str | Block

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            hint = 'Who speaks comes first: PromptMessage("user", text).'
            raise ConfigError(f"{self.role!r} cannot be the role of a prompt's message.", hint=hint)

    def to_mcp(self) -> dict[str, Any]:
        """As MCP writes it."""
        return {"role": self.role, "content": block_of(self.content)}


@dataclass(frozen=True, slots=True)
class PromptResult:
    """A prompt, filled in."""

    messages: Sequence[PromptMessage]
    description: str = ""


@dataclass(frozen=True)
class Prompt:
    """A prompt, to be filled in."""

    name: str
    generator: Generator
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    title: str = ""

    def __post_init__(self) -> None:
        name = validate_tool_name(self.name)
        if not name.valid:
            raise ConfigError(f"A prompt cannot be called {self.name!r}: {' '.join(name.errors)}")
        if not callable(self.generator):
            raise ConfigError(f"The prompt {self.name!r} has no generator.", hint="Give it a function of arguments.")
        names = [argument.name for argument in self.arguments]
        if len(set(names)) < len(names):
            raise ConfigError(f"The prompt {self.name!r} has an argument twice.", hint="Name each once.")

    def to_mcp(self) -> dict[str, Any]:
        """As MCP lists it."""
        told = {"title": self.title, "description": self.description}
        arguments = [
            {"name": one.name, "required": one.required} | ({"description": one.description} if one.description else {})
            for one in self.arguments
        ]
        return {"name": self.name, "arguments": arguments} | {name: value for name, value in told.items() if value}

    def check(self, given: Mapping[str, str]) -> None:
        """Raises `InvalidArgumentsError` for an argument that is missing or unknown; an empty one is there."""
        for argument in self.arguments:
            if argument.required and argument.name not in given:
                raise InvalidArgumentsError(f"The prompt {self.name!r} wants the argument {argument.name!r}.")
        known = [argument.name for argument in self.arguments]
        for name in given:
            if name not in known:
                takes = f"It takes: {', '.join(known)}." if known else "It takes none."
                raise InvalidArgumentsError(f"The prompt {self.name!r} has no argument {name!r}.", hint=takes)


def create_prompt(
    name: str,
    template: str,
    *,
    description: str = "",
    arguments: Iterable[PromptArgument] | None = None,
    title: str = "",
) -> Prompt:
    """A prompt of one text with `{argument}` where values go; without `arguments`, every placeholder is required.

    Values are put in as they are and never looked into. An optional argument that is not given leaves nothing; what
    stands in braces and is no argument stays.
    """
    found = tuple(PromptArgument(one, required=True) for one in dict.fromkeys(_PLACEHOLDER.findall(template)))
    taken = found if arguments is None else tuple(arguments)
    known = {argument.name for argument in taken}

    def fill(given: Mapping[str, str]) -> str:
        return _PLACEHOLDER.sub(lambda place: given.get(place[1], "") if place[1] in known else place[0], template)

    async def generate(given: Mapping[str, str]) -> str:
        return fill(given)

    return Prompt(name, generate, description, taken, title)


def read_messages(value: Any, description: str = "") -> PromptResult:
    """What a generator gave, as messages."""
    if isinstance(value, PromptResult):
        return value
    parts = list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]
    messages = [part if isinstance(part, PromptMessage) else PromptMessage("user", part) for part in parts]
    return PromptResult(messages, description)
