"""`trunkline annotate`: what you know better than a server is kept in the file, and counts from then on."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.till import teller
from tests.cli.inside import Done, run
from tests.harness import ModernCaller
from trunkline.config.reading import load
from trunkline.gateway.serve import open_gateway

Json = dict[str, Any]
ODD: Json = {
    "name": "look_and_burn",
    "description": "Look at it, and burn it.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True, "destructiveHint": True},
}


def type_in(folder: Path, *words: str) -> Done:
    env = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "TRUNKLINE_HOME": str(folder / "home")}
    return run(*words, env=env)


def annotate(folder: Path, *words: str) -> Done:
    return type_in(folder, "annotate", *words)


def written(servers: dict[str, Json], more: str = "") -> str:
    """A file with comments."""
    lines = ["# what I use"]
    for name, spec in servers.items():
        lines += [f"[servers.{name}]  # {name} is mine", f"command = {spec['command']!r}", f"args = {spec['args']!r}"]
    return "\n".join([*lines, more, "# the end", ""])


def one_server(folder: Path, **options: Any) -> Path:
    """A file that names one server."""
    file = folder / "trunkline.toml"
    file.write_text(written({"till": teller(folder, **options)}))
    return file


def two_servers(folder: Path, more: str = "") -> Path:
    """A file that names two servers, of which only the second can `look_and_burn`."""
    file = folder / "trunkline.toml"
    file.write_text(written({"a": teller(folder, "a"), "b": teller(folder, "b", more=[ODD])}, more))
    return file


def said(file: Path, server: str) -> Json:
    """What the file says of a server's tools."""
    return tomllib.loads(file.read_text())["servers"][server].get("tools", {})


# Saying.


def test_what_is_said_is_kept_in_the_file_beside_everything_that_was_there(tmp_path: Path) -> None:
    file = one_server(tmp_path)
    before = file.read_text()

    first = annotate(tmp_path, "--tool", "delete_account", "--destructive", "--requires-confirmation", "--audit")
    second = annotate(tmp_path, "-t", "delete_account", "--tags", "risky, final", "--no-audit", "--cost", "2.5")

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert said(file, "till") == {
        "delete_account": {
            "destructive_hint": True,
            "requires_confirmation": True,
            "audit_required": False,
            "tags": ["risky", "final"],
            "cost_hint": 2.5,
        }
    }
    assert [line for line in before.splitlines() if line] == [
        line for line in file.read_text().splitlines() if line in before.splitlines() and line
    ]
    assert file.stat().st_mode & 0o777 == 0o644


async def test_from_the_next_start_on_it_is_shown_and_counts(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    file = one_server(tmp_path)
    made = annotate(tmp_path, "--tool", "send_money", "--destructive", "--title", "Pay", "--requires-confirmation")
    config = load(file, env=os.environ, flags={"port": 0})

    async with open_gateway(dataclasses.replace(config, home=tmp_path / "home")) as opened:
        await opened.hub.ready(10)
        caller = ModernCaller(opened.url, http)
        listed = {tool["name"]: tool for tool in (await caller.request("tools/list")).result["tools"]}
        refused = await caller.call("send_money", {"account": "x"})

    assert made.returncode == 0
    assert listed["send_money"]["annotations"] == {"title": "Pay", "destructiveHint": True}
    assert "nobody can be asked" in refused.text
    assert not (tmp_path / "log").exists()


def test_all_can_be_said_in_one_object_in_either_spelling(tmp_path: Path) -> None:
    file = one_server(tmp_path)

    done = annotate(tmp_path, "-t", "get_*", "-a", '{"readOnlyHint": true, "cost_hint": 1}', "--format", "json")

    assert json.loads(done.stdout)["annotations"] == {"read_only_hint": True, "cost_hint": 1}
    assert said(file, "till") == {"get_*": {"read_only_hint": True, "cost_hint": 1}}


def test_a_server_written_in_one_line_can_be_spoken_of(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text('[servers]\none = { command = "x" } # short\n')

    done = annotate(tmp_path, "--tool", "t", "--read-only")

    assert done.returncode == 0, done.stderr
    assert said(file, "one") == {"t": {"read_only_hint": True}}
    assert "# short" in file.read_text()


def test_the_server_of_a_tool_is_found_where_only_one_has_it(tmp_path: Path) -> None:
    file = two_servers(tmp_path)

    found = annotate(tmp_path, "--tool", "look_and_burn", "--no-read-only")
    shown = annotate(tmp_path, "--tool", "a__send_money", "--idempotent")
    named = annotate(tmp_path, "--tool", "send_money", "--server", "b", "--idempotent")
    unclear = annotate(tmp_path, "--tool", "send_money", "--idempotent")
    nobody = annotate(tmp_path, "--tool", "no_such_tool", "--idempotent")

    assert [done.returncode for done in (found, shown, named, unclear, nobody)] == [0, 0, 0, 2, 2]
    assert said(file, "a") == {"send_money": {"idempotent_hint": True}}
    assert said(file, "b") == {"look_and_burn": {"read_only_hint": False}, "send_money": {"idempotent_hint": True}}
    assert "Several servers have 'send_money'. Name the server with --server." in unclear.stderr
    assert "No server that can be reached has 'no_such_tool'." in nobody.stderr


@pytest.mark.parametrize("words", [(), ("--server", "bank")])
async def test_what_is_said_of_a_groups_tool_counts_for_the_group(
    tmp_path: Path, http: aiohttp.ClientSession, words: tuple[str, ...]
) -> None:
    file = two_servers(tmp_path, '[groups.bank]\nservers = ["a", "b"]\n')
    done = annotate(tmp_path, "--tool", "send_money", "--destructive", *words)
    config = load(file, env=os.environ, flags={"port": 0})

    async with open_gateway(dataclasses.replace(config, home=tmp_path / "home")) as opened:
        await opened.hub.ready(10)
        listed = (await ModernCaller(opened.url, http).request("tools/list")).result["tools"]

    assert done.returncode == 0, done.stderr
    assert [tool["annotations"] for tool in listed if tool["name"] == "send_money"] == [{"destructiveHint": True}]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--destructive",), "Of which tool? Name it with --tool."),
        (("-t", "x", "-a", "{"), "--annotations is not JSON"),
        (("-t", "x", "-a", "[1]"), "--annotations must be a JSON object."),
        (("-t", "x", "-a", '{"deadly": true}'), "There is no annotation 'deadly'. There are: audit_required"),
        (("-t", "x", "-a", '{"destructiveHint": "yes"}'), "destructive_hint must be true or false"),
        (("-t", "x", "--read-only", "--destructive"), "cannot be both readOnly and destructive"),
        (("-t", "x", "--complexity", "hard"), "complexity must be one of simple, medium, complex"),
        (("-t", "x", "--cost", "-1"), "cost_hint must be a finite number, 0 or more"),
        (("-t", "x", "--cost", "much"), "--cost"),
        (("-t", "x", "--server", "nobody", "--destructive"), "There is no server 'nobody'. There are: till."),
        (("--list", "--infer"), "not allowed with"),
        (("--tools", "tools.json"), "--tools and --out belong together, with --infer."),
        (("--infer", "--out", "out.json"), "--tools and --out belong together, with --infer."),
        (("--infer", "--tools", "nowhere.json", "--out", "out.json"), "Name a file of tools."),
        (("--tool", "no_such_*"), "There is no tool 'no_such_*'. See `trunkline tools`."),
    ],
)
def test_what_cannot_be_said_is_explained_and_nothing_is_written(
    tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    file = one_server(tmp_path)
    before = file.read_text()

    done = annotate(tmp_path, *words)

    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert file.read_text() == before


def test_what_was_said_before_can_contradict_too(tmp_path: Path) -> None:
    file = one_server(tmp_path)
    annotate(tmp_path, "--tool", "send_money", "--read-only")

    done = annotate(tmp_path, "--tool", "send_money", "--destructive")

    assert done.returncode == 2
    assert said(file, "till") == {"send_money": {"read_only_hint": True}}


def test_a_clients_file_has_no_place_for_it(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": {"command": "x"}}}))
    before = file.read_text()

    done = annotate(tmp_path, "--config", str(file), "--tool", "t", "--destructive")

    assert done.returncode == 2
    assert "Use trunkline.toml." in done.stderr
    assert file.read_text() == before


def test_what_is_said_before_there_is_any_server_is_kept_for_all(tmp_path: Path) -> None:
    done = annotate(tmp_path, "--tool", "delete_*", "--destructive", "--format", "json")

    told = json.loads(done.stdout)
    assert (done.returncode, told["server"]) == (0, "")
    assert Path(told["file"]).read_text() == '[tools."delete_*"]\ndestructive_hint = true\n'


# Looking.


def test_every_tool_is_listed_with_what_is_known_of_it(tmp_path: Path) -> None:
    one_server(tmp_path)
    annotate(tmp_path, "--tool", "send_money", "--requires-confirmation", "--tags", "money")

    listed = annotate(tmp_path, "--list", "--format", "json")
    table = annotate(tmp_path)
    some = annotate(tmp_path, "--tool", "get_*", "--format", "json")

    found = {tool["tool"]: tool for tool in json.loads(listed.stdout)["tools"]}
    assert found["get_balance"]["safety"] == "safe"
    assert found["delete_account"]["safety"] == "dangerous"
    assert found["send_money"]["annotations"]["requires_confirmation"] is True
    assert found["send_money"]["annotations"]["tags"] == ["money"]
    assert "[read-only" in next(line for line in table.stdout.splitlines() if line.startswith("get_balance"))
    assert all(tool["tool"].startswith("get_") for tool in json.loads(some.stdout)["tools"])


def test_what_words_alone_say_is_shown_without_what_anybody_declares(tmp_path: Path) -> None:
    one_server(tmp_path, more=[ODD])
    annotate(tmp_path, "--tool", "delete_account", "--no-destructive")

    known = annotate(tmp_path, "--tool", "delete_account", "--format", "json")
    inferred = annotate(tmp_path, "--infer", "--tool", "delete_account", "--format", "json")
    odd = annotate(tmp_path, "--infer", "--tool", "look_and_burn", "--format", "json")

    assert json.loads(known.stdout)["tools"][0]["annotations"]["destructive_hint"] is False
    assert json.loads(inferred.stdout)["tools"][0]["annotations"]["destructive_hint"] is True
    assert json.loads(odd.stdout)["tools"][0]["annotations"]["read_only_hint"] is False
    assert "destructive_hint" not in json.loads(odd.stdout)["tools"][0]["annotations"]


def test_contradictions_are_found_and_the_exit_code_says_so(tmp_path: Path) -> None:
    one_server(tmp_path, more=[ODD])

    found = annotate(tmp_path, "--validate", "--format", "json")
    table = annotate(tmp_path, "--validate")
    fixed = annotate(tmp_path, "--tool", "look_and_burn", "--no-read-only")
    good = annotate(tmp_path, "--validate", "--format", "json")

    assert (found.returncode, table.returncode, fixed.returncode, good.returncode) == (1, 1, 0, 0)
    assert list(json.loads(found.stdout)["problems"]) == ["look_and_burn"]
    assert json.loads(found.stdout)["valid"] is False
    assert table.stdout.startswith("look_and_burn: Tool cannot be both")
    assert json.loads(good.stdout) == {"valid": True, "problems": {}}


def test_tools_in_a_file_are_judged_by_their_words(tmp_path: Path) -> None:
    tools: list[Json] = [
        {"name": "delete_user", "inputSchema": {}},
        {**ODD, "name": "get_user", "description": "Get a user."},
    ]
    (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))

    done = annotate(tmp_path, "--infer", "--tools", "tools.json", "--out", "out.jsonl")

    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert done.returncode == 0, done.stderr
    assert [line["name"] for line in lines] == ["delete_user", "get_user"]
    assert lines[0]["annotations"]["destructiveHint"] is True
    assert lines[1]["annotations"]["readOnlyHint"] is True


# A server that a group needs.


def test_a_server_that_a_group_needs_is_not_removed(tmp_path: Path) -> None:
    file = two_servers(tmp_path, '[groups.bank]\nservers = ["a", "b"]\n')
    before = file.read_text()

    done = type_in(tmp_path, "remove", "a", "--force")

    assert done.returncode == 2
    assert "Group 'bank' needs server 'a'. Take it out of the group first." in done.stderr
    assert file.read_text() == before
