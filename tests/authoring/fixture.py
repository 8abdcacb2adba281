"""A server of one's own that has everything the official conformance suite asks a server for.

Run it with `--port N` or with `--stdio`. The suite fixes the names of tools, prompts and resources.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
from typing import Any

from trunkline.authoring.content import Audio, Embedded, Image
from trunkline.authoring.context import ask, ask_all, may_ask, report_progress, send_log
from trunkline.authoring.decorators import ToolServer
from trunkline.authoring.questions import Answer, Question, form, roots, sample
from trunkline.tool import ToolResult

PAUSE = 0.05
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC")
WAV = base64.b64decode("UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA")

server = ToolServer("conformance", "A server to be examined.")
tool, resource, prompt = server.tool, server.resource, server.prompt


@tool(name="test_simple_text")
def simple_text() -> str:
    """Says a line."""
    return "A line of text."


@tool(name="test_image_content")
def image_content() -> Image:
    """Shows a picture."""
    return Image(PNG)


@tool(name="test_audio_content")
def audio_content() -> Audio:
    """Plays nothing, shortly."""
    return Audio(WAV)


@tool(name="test_embedded_resource")
def embedded_resource() -> Any:
    """Embeds a resource."""
    return Embedded("test://embedded-resource", "Embedded by a tool.", "text/plain")


@tool(name="test_multiple_content_types")
def mixed_content() -> Any:
    """Says, shows and embeds."""
    return ["Three kinds.", Image(PNG), Embedded("test://mixed-content-resource", "The third.", "text/plain")]


@tool(name="test_error_handling")
def failure() -> str:
    """Fails."""
    raise ValueError("It fails, as it should.")


@tool(name="test_tool_with_logging")
async def logging() -> str:
    """Logs three lines."""
    for step in ("started", "halfway", "done"):
        send_log(step, logger="fixture")
        await asyncio.sleep(PAUSE)
    return "Logged three lines."


@tool(name="test_logging_tool")
async def logging_too() -> str:
    """Logs three lines too."""
    return await logging()


@tool(name="test_tool_with_progress")
async def progress() -> str:
    """Reports its progress."""
    for percent in (0, 50, 100):
        report_progress(percent, 100)
        await asyncio.sleep(PAUSE)
    return "Came to a hundred."


@tool(name="test_reconnection")
async def reconnection() -> str:
    """Takes its time."""
    await asyncio.sleep(PAUSE)
    return "Welcome back."


@tool(name="test_trigger_tool_change")
def tool_change() -> str:
    """Announces that the tools changed."""
    server.register_tool(simple_text, name="passing")
    server.remove_tool("passing")
    return "Announced."


@tool(name="test_trigger_prompt_change")
def prompt_change() -> str:
    """Announces that the prompts changed."""
    server.prompt(name="passing")(simple_prompt)
    server.capabilities.unregister_prompt("passing")
    return "Announced."


def echo(arguments: dict[str, Any]) -> str:
    """Says its arguments."""
    return json.dumps(arguments)


VOCABULARY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "to": {"$ref": "#/$defs/address"},
        "by": {"enum": ["post", "phone"]},
        "number": {"type": "string"},
        "code": {"type": "string"},
    },
    "$defs": {"address": {"$anchor": "place", "type": "object", "properties": {"city": {"type": "string"}}}},
    "allOf": [{"anyOf": [{"required": ["number"]}, {"required": ["code"]}]}],
    "if": {"properties": {"by": {"const": "phone"}}, "required": ["by"]},
    "then": {"required": ["number"]},
    "else": {"required": ["code"]},
    "additionalProperties": False,
}
ROUTED = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
server.register_tool(echo, name="json_schema_2020_12_tool", parameters=VOCABULARY)
server.register_tool(echo, name="test_x_mcp_header", parameters=ROUTED)


@tool(name="test_elicitation")
async def ask_message(message: str) -> str:
    """Asks what it is told to ask."""
    return told(await ask(message, username=str, email=str, key="user"))


@tool(name="test_elicitation_sep1034_defaults")
async def ask_defaults() -> str:
    """Asks, and suggests answers."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return told(await ask("Is this you?", {"type": "object", "properties": fields}, key="person"))


@tool(name="test_elicitation_sep1330_enums")
async def ask_enums() -> str:
    """Asks to choose."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"The value {n}"} for n in (1, 2, 3)]
    fields = {
        "untitledSingle": plain,
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return told(await ask("Which ones?", key="choice", **fields))


@tool(name="test_sampling")
async def ask_prompt(prompt: str) -> str:
    """Asks the caller's model."""
    return told((await ask_all({"model": sample(prompt, max_tokens=100)}))["model"])


NAME = form("What is your name?", name=str)
EVERYTHING: dict[str, Question] = {
    "user_name": NAME,
    "greeting": sample("Write a greeting.", max_tokens=100),
    "client_roots": roots(),
}


@tool(name="test_streaming_elicitation")
@tool(name="test_input_required_result_elicitation")
async def ask_name() -> str:
    """Asks for a name."""
    return told(await ask("What is your name?", name=str, key="user_name"))


@tool(name="test_missing_capability")
@tool(name="test_input_required_result_sampling")
async def ask_model() -> str:
    """Asks the caller's model for a capital."""
    return told(await ask_all({"capital_question": sample("What is the capital of France?", max_tokens=100)}))


@tool(name="test_input_required_result_list_roots")
async def ask_roots() -> str:
    """Asks for the roots."""
    return told(await ask_all({"client_roots": roots()}))


@tool(name="test_input_required_result_tampered_state")
@tool(name="test_input_required_result_request_state")
async def ask_with_state() -> str:
    """Asks, and wants its state back."""
    return "state-ok " + told(await ask("Go on?", ok=bool, key="confirm"))


@tool(name="test_input_required_result_multiple_inputs")
async def ask_everything() -> str:
    """Asks everything at once."""
    return told(await ask_all(EVERYTHING))


@tool(name="test_input_required_result_capabilities")
async def ask_what_is_declared() -> str:
    """Asks what it may."""
    return told(await ask_all({key: question for key, question in EVERYTHING.items() if may_ask(question)}))


@tool(name="test_input_required_result_multi_round")
async def ask_twice() -> str:
    """Asks twice."""
    name = await ask("First: what is your name?", name=str, key="step1")
    color = await ask("Second: which colour do you like?", color=str, key="step2")
    return f"{name.get('name')} likes {color.get('color')}."


@resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "The text of it."


@resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return PNG


@resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A text to follow."""
    return "Watched."


@resource("test://template/{id}/data", mime_type="text/plain")
def template(id: str) -> str:
    """Says its id."""
    return f"The data of {id}."


@prompt(name="test_simple_prompt")
def simple_prompt() -> str:
    """Says something simple."""
    return "Say something simple."


@prompt(name="test_prompt_with_arguments")
def prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Has two arguments."""
    return f"The first is {arg1}, the second is {arg2}."


@prompt(name="test_prompt_with_embedded_resource")
def prompt_with_resource(resourceUri: str) -> Any:
    """Embeds a resource."""
    return [Embedded(resourceUri, "Embedded by a prompt.", "text/plain"), "Read it."]


@prompt(name="test_prompt_with_image")
def prompt_with_image() -> Any:
    """Shows a picture."""
    return [Image(PNG), "Describe it."]


@prompt(name="test_input_required_result_prompt")
async def prompt_that_asks() -> str:
    """Asks what it is about."""
    return f"Asked and answered: {told(await ask('What is it about?', context=str, key='user_context'))}"


@server.completion("test_prompt_with_arguments", "arg1")
def complete(typed: str) -> list[str]:
    return [word for word in ("test", "testimony", "paris", "park") if word.startswith(typed)]


def told(answer: Any) -> str:
    if isinstance(answer, Answer):
        return json.dumps({"action": answer.action, "content": dict(answer.content)})
    return ToolResult.of(answer).text if not isinstance(answer, dict) else json.dumps(answer, default=str)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--port", type=int)
    way.add_argument("--stdio", action="store_true")
    chosen = parser.parse_args()
    server.run("stdio" if chosen.stdio else "http", port=chosen.port or 0)


if __name__ == "__main__":
    main()
