"""Questions that a tool can ask its caller, and the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from trunkline import model
from trunkline.errors import ConfigError, InvalidArgumentsError
from trunkline.tools.check.checker import checker_for

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"

Wanted = Any
"""What a field takes: a type (`str`, `int`, `Literal["S", "M"]`), a list of choices, or a JSON Schema."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, as MCP writes it."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kind: Any = None
    """The type that a person's answer becomes."""

    @property
    def by_page(self) -> bool:
        """Whether a person is sent to an address."""
        return self.params.get("mode") == "url"

    @property
    def on_wire(self) -> model.Question:
        """The same as calls carry it."""
        return model.Question(self.method, msgspec.json.encode(self.params))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said; it is true when they agreed."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])
    value: Any = None
    """The content as the type that was asked for."""

    @property
    def accepted(self) -> bool:
        """Whether they answered; otherwise they refused, or looked away."""
        return self.action == "accept"

    def __bool__(self) -> bool:
        return self.accepted

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def get(self, name: str, default: Any = None) -> Any:
        """One field, or `default` where there is none."""
        return self.content.get(name, default)


def form(message: str, wanted: Any = None, /, **fields: Wanted) -> Question:
    """A question to a person: fields by name, a JSON Schema, a type with fields, or nothing but yes or no."""
    kind = None
    schema: dict[str, Any]
    if isinstance(wanted, Mapping):
        schema = dict(cast("Mapping[str, Any]", wanted))
    elif wanted is not None:
        kind, schema = wanted, _schema_of(wanted)
    else:
        described = {name: _field(name, what) for name, what in fields.items()}
        required = [name for name, about in described.items() if "default" not in about]
        schema = {"type": "object", "properties": described, "required": required}
    fields_of = schema.get("properties")
    if not isinstance(fields_of, Mapping) or schema.get("type") != "object":
        raise ConfigError("A question wants an object with fields.", hint='Give `{"type": "object", "properties": …}`.')
    schema["properties"] = {name: _flat(name, about) for name, about in cast("Mapping[str, Any]", fields_of).items()}
    return Question(ELICIT, {"mode": "form", "message": message, "requestedSchema": schema}, kind)


def page(message: str, url: str) -> Question:
    """A request to open an address; it is how secrets are asked for, which must not pass the caller."""
    return Question(ELICIT, {"mode": "url", "message": message, "url": url})


def sample(prompt: str, *, max_tokens: int = 1000, system: str = "") -> Question:
    """A question to the caller's model."""
    said = {"role": "user", "content": {"type": "text", "text": prompt}}
    params: dict[str, Any] = {"messages": [said], "maxTokens": max_tokens}
    return Question(SAMPLE, params | ({"systemPrompt": system} if system else {}))


def roots() -> Question:
    """Which folders the caller works in."""
    return Question(ROOTS)


def read_answer(question: Question, result: Mapping[str, Any]) -> Any:
    """A person's `Answer`, or what the caller's model said or its roots are.

    Raises `InvalidArgumentsError` when it does not fit the question.
    """
    if question.method != ELICIT:
        return dict(result)
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise InvalidArgumentsError("The answer says neither yes nor no.")
    content = result.get("content")
    given = dict(cast("Mapping[str, Any]", content)) if isinstance(content, Mapping) else {}
    if action != "accept" or question.by_page:
        return Answer(action, given)
    problems = checker_for(question.params["requestedSchema"]).problems(given)
    if problems:
        raise InvalidArgumentsError(f"The answer does not fit the question: {'; '.join(problems)}.")
    return Answer(action, given, _converted(question, given))


def _converted(question: Question, given: dict[str, Any]) -> Any:
    if question.kind is None:
        return given
    try:
        return msgspec.convert(given, question.kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgumentsError("The answer does not fit the type that was asked for.") from error


def _field(name: str, wanted: Wanted) -> dict[str, Any]:
    if isinstance(wanted, Mapping):
        return dict(cast("Mapping[str, Any]", wanted))
    if isinstance(wanted, list | tuple) and all(isinstance(one, str) for one in cast("Sequence[Any]", wanted)):
        return {"type": "string", "enum": list(cast("Sequence[str]", wanted))}
    try:
        return dict(msgspec.json.schema_components([wanted])[0][0])
    except TypeError as error:
        raise ConfigError(
            f"The field {name!r} cannot be asked for.", hint="Give a type, choices or a schema."
        ) from error


def _schema_of(kind: Any) -> dict[str, Any]:
    try:
        (schema,), definitions = msgspec.json.schema_components([kind], ref_template="{name}")
    except TypeError as error:
        raise ConfigError("A question cannot ask for this type.", hint="Take a dataclass with plain fields.") from error
    return dict(definitions[schema["$ref"]]) if "$ref" in schema else dict(schema)


def _flat(name: str, about: Any) -> dict[str, Any]:
    """Clients show one line for each field, so MCP allows nothing that is nested."""
    plain = dict(cast("Mapping[str, Any]", about)) if isinstance(about, Mapping) else {}
    if "enum" in plain:
        plain.setdefault("type", "string")
    if plain.get("type") not in ("string", "number", "integer", "boolean", "array"):
        raise ConfigError(
            f"The field {name!r} cannot be asked for: it is neither a text, a number, a truth value nor a choice.",
            hint="Ask for its parts.",
        )
    return plain
