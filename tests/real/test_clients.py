"""Clients of four makes in front of five servers of two languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mcp
import mcp_types as types
import pytest

from tests.real.parts import Running, ask_old_client, inspect, prefixes, text_of

pytestmark = [
    pytest.mark.slow,
    # Sampling, roots and progress are deprecated in the SDK, and its callbacks say so; servers use them all the same.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

SERVERS = {"everything", "filesystem", "memory", "time", "git"}
SOME_TOOLS = {
    "everything__echo",
    "filesystem__read_text_file",
    "memory__create_entities",
    "time__get_current_time",
    "git__git_status",
}
CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "echo": ("everything__echo", {"message": "hello"}, "Echo: hello"),
    "sum": ("everything__get-sum", {"a": 2, "b": 3}, "The sum of 2 and 3 is 5."),
    "time": ("time__get_current_time", {"timezone": "Asia/Tokyo"}, "+09:00"),
    "status": ("git__git_status", {"repo_path": "REPOSITORY"}, "untracked.txt"),
    "log": ("git__git_log", {"repo_path": "REPOSITORY"}, "The first commit"),
}
"""A tool, its arguments, and what must be in its answer."""

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def in_place(arguments: dict[str, Any], gateway: Running) -> dict[str, Any]:
    return {key: str(gateway.repository) if value == "REPOSITORY" else value for key, value in arguments.items()}


@ERAS
async def test_the_sdk_client_lists_the_tools_of_all_servers(gateway: Running, mode: Any) -> None:
    async with mcp.Client(gateway.url, mode=mode) as client:
        listed = await client.list_tools()
        version = client.session.protocol_version

    names = {tool.name for tool in listed.tools}
    assert version == VERSIONS[mode]
    assert names >= SOME_TOOLS
    assert {name.partition("__")[0] for name in names} == SERVERS


@ERAS
@pytest.mark.parametrize("call", CALLS)
async def test_the_sdk_client_gets_a_real_answer(gateway: Running, mode: Any, call: str) -> None:
    tool, arguments, expected = CALLS[call]
    async with mcp.Client(gateway.url, mode=mode) as client:
        assert expected in await text_of(client, tool, in_place(arguments, gateway))


@ERAS
async def test_a_file_that_is_written_can_be_read(gateway: Running, mode: Any) -> None:
    path = gateway.files / f"{mode}.txt"
    async with mcp.Client(gateway.url, mode=mode) as client:
        await text_of(client, "filesystem__write_file", {"path": str(path), "content": f"Written by {mode}."})
        read = await text_of(client, "filesystem__read_text_file", {"path": str(path)})

    assert read == path.read_text() == f"Written by {mode}."


@ERAS
async def test_a_graph_remembers_what_it_was_told(gateway: Running, mode: Any) -> None:
    entity = {"name": f"Ada-{mode}", "entityType": "person", "observations": ["wrote the first program"]}
    async with mcp.Client(gateway.url, mode=mode) as client:
        await text_of(client, "memory__create_entities", {"entities": [entity]})
        graph = json.loads(await text_of(client, "memory__read_graph"))

    assert entity in graph["entities"]


@ERAS
async def test_resources_are_listed_and_read(gateway: Running, mode: Any) -> None:
    async with mcp.Client(gateway.url, mode=mode) as client:
        listed = [resource.uri for resource in (await client.list_resources()).resources]
        templates = [found.uri_template for found in (await client.list_resource_templates()).resource_templates]
        document = await client.read_resource("demo://resource/static/document/architecture.md")
        made = await client.read_resource("demo://resource/dynamic/text/7")

    assert "demo://resource/static/document/architecture.md" in listed
    assert "demo://resource/dynamic/text/{resourceId}" in templates
    assert isinstance(document.contents[0], types.TextResourceContents)
    assert "Architecture" in document.contents[0].text
    assert isinstance(made.contents[0], types.TextResourceContents)
    assert "Resource 7" in made.contents[0].text


@ERAS
async def test_prompts_are_listed_got_and_completed(gateway: Running, mode: Any) -> None:
    reference = types.PromptReference(name="everything__completable-prompt")
    async with mcp.Client(gateway.url, mode=mode) as client:
        listed = [prompt.name for prompt in (await client.list_prompts()).prompts]
        got = await client.get_prompt("everything__args-prompt", {"city": "Oslo"})
        completed = await client.complete(reference, {"name": "department", "value": "E"})

    assert {"everything__simple-prompt", "everything__args-prompt"} <= set(listed)
    assert isinstance(got.messages[0].content, types.TextContent)
    assert "Oslo" in got.messages[0].content.text
    assert completed.completion.values == ["Engineering"]


@ERAS
async def test_progress_arrives_step_by_step(gateway: Running, mode: Any) -> None:
    heard: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total))

    async with mcp.Client(gateway.url, mode=mode) as client:
        arguments = {"duration": 0.4, "steps": 4}
        await text_of(client, "everything__trigger-long-running-operation", arguments, progress_callback=note)

    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]


async def elicit(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Sampled."), model="a-model")


async def test_a_server_asks_the_person_behind_a_legacy_caller(gateway: Running) -> None:
    async with mcp.Client(gateway.url, mode="legacy", elicitation_callback=elicit) as client:
        said = await text_of(client, "everything__trigger-elicitation-request")

    assert "- Name: Ada" in said


async def test_a_server_asks_the_model_of_a_legacy_caller(gateway: Running) -> None:
    async with mcp.Client(gateway.url, mode="legacy", sampling_callback=sample) as client:
        said = await text_of(client, "everything__trigger-sampling-request", {"prompt": "Say something."})

    assert "Sampled." in said


async def test_tools_that_a_server_keeps_for_callers_it_may_ask_are_listed_to_them(gateway: Running) -> None:
    async with mcp.Client(gateway.url, mode="legacy", elicitation_callback=elicit, sampling_callback=sample) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}

    assert {"everything__trigger-elicitation-request", "everything__trigger-sampling-request"} <= listed


def test_the_sdk_client_of_the_last_era_uses_all_servers(gateway: Running) -> None:
    calls = [(tool, in_place(arguments, gateway)) for tool, arguments, _ in CALLS.values()]

    said = ask_old_client(
        gateway.url, *calls, ("everything__trigger-long-running-operation", {"duration": 0.3, "steps": 3})
    )

    assert (said["server"], said["version"]) == ("trunkline", "2025-11-25")
    assert set(said["tools"]) >= SOME_TOOLS
    assert "everything__simple-prompt" in said["prompts"]
    assert "demo://resource/static/document/architecture.md" in said["resources"]
    assert all(expected in answer for (*_, expected), answer in zip(CALLS.values(), said["answers"], strict=False))
    assert said["progress"] == [1, 2, 3]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_the_tools_of_all_servers(gateway: Running, era: str, tmp_path: Path) -> None:
    listed = inspect(gateway.url, era, tmp_path, "--method", "tools/list")

    assert prefixes(listed["tools"]) == SERVERS


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_calls_a_tool(gateway: Running, era: str, tmp_path: Path) -> None:
    flags = ["--method", "tools/call", "--tool-name", "everything__get-sum", "--tool-arg", "a=2", "b=3"]

    said = inspect(gateway.url, era, tmp_path, *flags)

    assert said["content"][0]["text"] == "The sum of 2 and 3 is 5."
