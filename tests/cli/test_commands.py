"""The command line, as a stranger uses it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.call.stages.till import teller
from tests.cli.inside import run, running_gateway
from tests.cli.stand_in import stand_in
from tests.harness import TRUNKLINE, ModernCaller, faulty, faulty_http
from trunkline.cli.main import main


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing is configured yet."""
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "TRUNKLINE_HOME": str(tmp_path / "t"),
    }


def at_the_shell(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, as its exit code reaches a shell."""
    return subprocess.run(
        [TRUNKLINE, *words], env=env, capture_output=True, text=True, timeout=60, input="", cwd=env["HOME"]
    )


def add_faulty(name: str, env: dict[str, str], *flags: str) -> None:
    spec = faulty(*flags)
    added = run("add", name, spec["command"], *spec["args"], env=env)
    assert added.returncode == 0, added.stderr


def test_the_version_is_one_line(home: dict[str, str]) -> None:
    done = at_the_shell("--version", env=home)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("trunkline 0.")


def test_without_a_command_help_is_shown_and_the_exit_code_says_wrong_use(home: dict[str, str]) -> None:
    done = at_the_shell(env=home)

    assert done.returncode == 2
    assert "up" in done.stderr


def test_what_is_added_is_listed_used_and_removed_again(home: dict[str, str]) -> None:
    add_faulty("one", home)
    add_faulty("two", home, "--era", "legacy")

    listed = json.loads(run("list", "--format", "json", env=home).stdout)
    tools = run("tools", "--format", "compact", "--server", "one", env=home).stdout.split()
    said = run("exec", "two", "echo", "text=hello", "--format", "compact", env=home)
    removed = run("remove", "one", "--force", env=home)
    left = json.loads(run("list", "--format", "json", env=home).stdout)

    assert [server["name"] for server in listed["servers"]] == ["one", "two"]
    assert "one__echo" in tools
    assert (said.returncode, said.stdout) == (0, "hello\n")
    assert removed.returncode == 0
    assert [server["name"] for server in left["servers"]] == ["two"]


def test_comments_in_the_file_survive_a_change(home: dict[str, str]) -> None:
    file = Path(home["HOME"]) / "trunkline.toml"
    file.write_text("# mine\n[gateway]\nport = 1 # why\n")

    run("add", "--no-download", "a", "uvx", "thing", "--flag", env=home)
    text = file.read_text()

    assert "# mine" in text
    assert "# why" in text
    assert 'args = ["thing", "--flag"]' in text


@pytest.mark.parametrize("words", [("--env", "TOKEN=tell-nobody"), ("--env=TOKEN=tell-nobody",)])
def test_options_of_ours_are_taken_behind_the_command_too(words: tuple[str, ...], home: dict[str, str]) -> None:
    done = run("add", "a", "uvx", "thing", *words, "--flag", "--force", "--", "--env", "its-own", env=home)

    spec = tomllib.loads((Path(home["XDG_CONFIG_HOME"]) / "trunkline" / "trunkline.toml").read_text())["servers"]["a"]
    assert done.returncode == 0, done.stderr
    assert spec == {"command": "uvx", "args": ["thing", "--flag", "--env", "its-own"], "env": {"TOKEN": "tell-nobody"}}


@pytest.mark.parametrize(
    "words", [("docker", "run", "--env", "TOKEN=tell-nobody", "image"), ("uvx", "x", "--config", "y")]
)
def test_options_that_may_be_the_programs_are_refused_with_both_spellings(
    words: tuple[str, ...], home: dict[str, str]
) -> None:
    done = run("add", "a", *words, env=home)

    assert done.returncode == 2
    assert f"trunkline add {words[2]} … a {words[0]}" in done.stderr
    assert f"trunkline add a {words[0]} -- " in done.stderr
    assert "tell-nobody" not in done.stderr
    assert not (Path(home["XDG_CONFIG_HOME"]) / "trunkline").exists()


def test_an_argument_that_looks_like_a_secret_is_pointed_out(home: dict[str, str]) -> None:
    done = run("add", "a", "uvx", "thing", "--api-key", "tell-nobody", env=home)

    assert "An argument looks like a secret" in done.stderr
    assert "tell-nobody" not in done.stderr


def test_a_clients_json_file_can_be_changed_too(home: dict[str, str]) -> None:
    file = Path(home["HOME"]) / "mcp.json"
    file.write_text('{"other": 1, "mcpServers": {}}')

    run("add", "web", "https://h.example/mcp", "--header", "X-Key: v", "--config", str(file), env=home)

    assert json.loads(file.read_text()) == {
        "other": 1,
        "mcpServers": {"web": {"url": "https://h.example/mcp", "headers": {"X-Key": "v"}}},
    }


def test_a_new_file_is_readable_by_its_owner_alone(home: dict[str, str]) -> None:
    run("add", "a", "x", env=home)

    assert (Path(home["XDG_CONFIG_HOME"]) / "trunkline" / "trunkline.toml").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("test",), 2, "There is no configuration yet."),
        (("up", "--config", "nowhere.toml"), 2, "There is no file"),
        (("up", "--host", "0.0.0.0"), 2, "without a token"),
        (("up", "--port", "x"), 2, "gateway"),
        (("nonsense",), 2, "invalid choice"),
        (("add", "x"), 2, "required: COMMAND|URL\n"),
        (("remove", "a"), 2, "There is no configuration"),
        (("tools", "--safety", "harmless"), 2, "invalid choice"),
    ],
)
def test_wrong_use_is_explained(words: tuple[str, ...], code: int, complaint: str, home: dict[str, str]) -> None:
    done = run(*words, env=home)

    assert done.returncode == code
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_exec_explains_what_it_cannot_do(home: dict[str, str]) -> None:
    add_faulty("one", home)
    run("add", "gone", "no-such-program", env=home)

    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("exec", "one", "ecko"), 1, "Did you mean 'one__echo'"),
        (("exec", "nobody", "echo"), 2, "There is no server 'nobody'"),
        (("exec", "gone", "echo"), 3, "no program 'no-such-program'"),
        (("exec", "one", "echo", "--params", "{"), 2, "not JSON"),
        (("exec", "one", "echo"), 1, ""),
        (("exec", "one", "crash"), 1, "exited with code 1"),
    ]
    for words, code, complaint in cases:
        done = run(*words, env=home)
        assert (words, done.returncode) == (words, code), done.stderr
        assert complaint in done.stderr


def test_test_says_which_servers_work(home: dict[str, str]) -> None:
    add_faulty("good", home)
    add_faulty("bad", home, "--start", "exit")

    done = at_the_shell("test", "--format", "json", env=home)
    alone = run("test", "good", env=home)
    report: dict[str, Any] = {server["name"]: server for server in json.loads(done.stdout)["servers"]}

    assert done.returncode == 3
    assert report["good"]["state"] == "ready"
    assert report["bad"]["state"] == "unreachable"
    assert "exited with code 3" in report["bad"]["reason"]
    assert alone.returncode == 0


def test_json_on_standard_output_is_json_and_nothing_else(home: dict[str, str]) -> None:
    with faulty_http() as url:
        run("add", "web", url, env=home)

        for words in (("list",), ("servers",), ("tools",), ("test",), ("exec", "web", "echo", "text=1")):
            json.loads(run(*words, "--format", "json", env=home).stdout)


def test_remove_without_a_terminal_asks_nobody(home: dict[str, str]) -> None:
    add_faulty("one", home)

    done = run("remove", "one", env=home)

    assert (done.returncode, "Removed 'one'" in done.stderr) == (0, True)
    assert "one" not in run("list", "--format", "compact", env=home).stdout


# What is known of tools.

MARKED: dict[str, Any] = {
    "send_money": {"tags": ["money", "daily"], "category": "treasury"},
    "pay_slowly": {"tags": ["money"]},
}


def write(home: dict[str, str], document: dict[str, Any]) -> None:
    """The folder's configuration."""
    import tomlkit

    (Path(home["HOME"]) / "trunkline.toml").write_text(tomlkit.dumps(document))


def a_teller(home: dict[str, str], name: str = "till", **options: Any) -> dict[str, Any]:
    return teller(Path(home["HOME"]), name, **options)


@pytest.mark.parametrize(
    ("words", "among", "without"),
    [
        (("--safety", "safe"), {"get_balance", "get_wrong"}, {"send_money", "delete_account"}),
        (("--safety", "dangerous"), {"delete_account"}, {"get_balance", "send_money"}),
        (("--category", "treasury"), {"send_money"}, {"pay_slowly", "get_balance"}),
        (("--safety", "moderate", "--tag", "money"), {"send_money", "pay_slowly"}, {"get_balance", "paint"}),
        (("--tag", "money", "--tag", "daily"), {"send_money"}, {"pay_slowly", "get_balance"}),
    ],
)
def test_tools_are_found_by_what_is_known_of_them(
    words: tuple[str, ...], among: set[str], without: set[str], home: dict[str, str]
) -> None:
    write(home, {"servers": {"till": a_teller(home, tools=MARKED)}})

    done = run("tools", "--format", "compact", *words, env=home)
    listed = set(done.stdout.split())

    assert done.returncode == 0, done.stderr
    assert among <= listed
    assert not without & listed


def test_what_is_known_of_tools_is_shown_when_it_is_wanted(home: dict[str, str]) -> None:
    write(home, {"servers": {"till": a_teller(home, tools=MARKED)}})

    table = run("tools", "--annotations", env=home)
    told = json.loads(run("tools", "--annotations", "--format", "json", env=home).stdout)
    plain = json.loads(run("tools", "--format", "json", env=home).stdout)
    tools: dict[str, Any] = {tool["name"]: tool for tool in told["tools"]}

    row = next(line for line in table.stdout.splitlines() if line.startswith("delete_account"))
    assert "dangerous" in row
    assert "DESTRUCTIVE" in row
    assert (tools["send_money"]["safety"], tools["send_money"]["category"]) == ("moderate", "treasury")
    assert tools["send_money"]["known"]["tags"] == ["money", "daily"]
    assert tools["get_balance"]["known"]["read_only_hint"] is True
    assert not any("known" in tool for tool in plain["tools"])


def test_servers_are_found_by_what_their_tools_do(home: dict[str, str]) -> None:
    write(home, {"servers": {"till": a_teller(home, tools=MARKED), "other": faulty()}})

    found = run("servers", "--category", "treasury", "--format", "compact", env=home)
    nothing = run("servers", "--category", "astrology", "--format", "compact", env=home)

    assert found.stdout.split()[::2] == ["till"]
    assert nothing.stdout.split() == []


# Groups.


def test_a_group_is_named_like_a_server(home: dict[str, str]) -> None:
    servers = {name: a_teller(home, name) for name in ("a", "b")} | {"other": faulty()}
    write(home, {"servers": servers, "groups": {"bank": {"servers": ["a", "b"]}}})

    tools = run("tools", "--server", "bank", "--format", "compact", env=home)
    member = run("tools", "--server", "a", "--format", "compact", env=home)
    called = run("exec", "bank", "get_balance", "account=x", env=home)
    unknown = run("exec", "bonk", "get_balance", "account=x", env=home)

    assert "bank__get_balance" in tools.stdout.split()
    assert not any(name.startswith("other__") for name in tools.stdout.split())
    assert member.stdout == tools.stdout
    assert called.returncode == 0, called.stderr
    assert unknown.returncode == 2
    assert "There are: a, b, other, bank." in unknown.stderr


# A gateway that runs.


async def all_reached(url: str, http: aiohttp.ClientSession, authorization: str) -> None:
    """Wait until every server of a gateway was reached."""
    async with asyncio.timeout(20):
        while True:
            async with http.get(url.replace("/mcp", "/readyz"), headers={"authorization": authorization}) as response:
                servers = (await response.json())["servers"]
            if all(server["state"] != "starting" for server in servers.values()):
                return
            await asyncio.sleep(0.02)


async def test_a_running_gateway_is_asked_how_calls_went(home: dict[str, str]) -> None:
    folder = Path(home["HOME"])
    document: dict[str, Any] = {
        "gateway": {"token": "the-long-token-of-the-house"},
        "servers": {name: a_teller(home, name) for name in ("a", "b")},
        "groups": {"bank": {"servers": ["a", "b"], "strategy": "failover-only", "priorities": {"b": 1}}},
    }
    gateway, sections = document["gateway"], {"groups": document["groups"]}
    with running_gateway(folder / "up", document["servers"], sections=sections, **gateway) as url:
        async with aiohttp.ClientSession() as http:
            caller = ModernCaller(url, http, token=document["gateway"]["token"])
            await all_reached(url, http, caller.headers["authorization"])
            for tool in ("get_balance", "get_balance", "get_wrong"):
                await caller.call(tool, {"account": "x"})
        document["gateway"]["port"] = int(url.split(":")[2].partition("/")[0])
        write(home, document)
        told = json.loads(run("servers", "--detailed", "--format", "json", env=home).stdout)
        table = run("servers", "--detailed", env=home)
        plain = run("servers", env=home)
    alone = run("servers", "--detailed", env=home)

    a, b = told["servers"]
    assert (a["calls"], a["tool_errors"], a["failures"], a["success_rate"]) == (3, 1, 0, 0.6667)
    assert a["group"] == {"name": "bank", "health": "well"}
    assert "calls" not in b
    assert "3 calls: 66.7% went well" in table.stdout
    assert "no calls yet" in table.stdout
    assert "in group bank: well" in table.stdout
    assert "protocol 2026-07-28; " in table.stdout
    assert " tools, 1 resource" in table.stdout
    assert "calls" not in plain.stdout
    assert "No gateway of this configuration runs" in alone.stderr


def test_details_of_a_server_that_fails_are_what_it_said(home: dict[str, str]) -> None:
    add_faulty("bad", home, "--start", "exit")

    done = run("servers", "--detailed", env=home)
    only = run("servers", "--status", "ready", "--format", "compact", env=home)

    assert "exited with code 3" in done.stdout
    assert only.stdout.strip() == ""


def test_search_finds_tools_by_what_they_do_and_says_so_when_none_fits_or_nobody_could_be_asked(
    home: dict[str, str],
) -> None:
    write(home, {"servers": {"notes": stand_in("notes")}})

    found = run("search", "throw a note away", "--format", "json", env=home)
    nothing = run("search", "bake a chocolate cake", env=home)
    nowhere = run("search", "notes", "--server", "nots", env=home)
    empty = run("search", " ", env=home)
    write(home, {"servers": {"away": {"command": "no-such-program"}}})
    away = run("search", "notes", env=home)
    call = run("exec", "away__note", env=home)

    assert json.loads(found.stdout)["tools"][0]["tool"] == "delete_note"
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "Nothing fits" in nothing.stderr
    assert (nowhere.returncode, empty.returncode) == (2, 2)
    assert "Not searched: away, unreachable. Server 'away' cannot be started" in away.stderr
    assert (call.returncode, "Server 'away' is unreachable." in call.stderr) == (3, True)


def test_a_text_that_looks_like_a_number_reaches_a_tool_that_wants_text_as_text(home: dict[str, str]) -> None:
    add_faulty("one", home)

    said = run("exec", "echo", "text=5", "--format", "compact", env={**home, "TRUNKLINE_MIDDLEWARE_VALIDATE": "true"})

    assert (said.returncode, said.stdout.strip()) == (0, "5")


def test_ctrl_c_while_a_command_is_still_loading_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(command: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trunkline.cli.main.parser", interrupted)

    assert main(["tools"]) == 130
