"""Commands beside a gateway that runs: they use its servers, and start none of their own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
from collections.abc import Generator
from pathlib import Path

import aiohttp
import pytest

from tests.cli.inside import announced_gateway, run, typed
from tests.cli.stand_in import stand_in
from tests.harness import faulty, until
from trunkline.cli import running
from trunkline.cli.line import call_tool
from trunkline.cli.running import find_running
from trunkline.config.reading import load, user_file
from trunkline.gateway.announcement import find_announcement
from trunkline.gateway.serve import Gateway
from trunkline.model import Entry
from trunkline.questions.bridge import LocalAnswers


class Scene:
    """A folder with a configuration, whose servers note who starts them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "mcp.json"
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TRUNKLINE")},
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "c"),
            "TRUNKLINE_HOME": str(folder / "t"),
            "TRUNKLINE_GATEWAY_PORT": "0",
        }
        self.write(notes=stand_in("notes"), clock=stand_in("clock"), slow=faulty())

    def write(self, **servers: dict[str, object]) -> None:
        noted = {name: self._noted(spec) for name, spec in servers.items()}
        self.file.write_text(json.dumps({"mcpServers": noted}))

    def _noted(self, spec: dict[str, object]) -> dict[str, object]:
        command = shlex.join([str(spec["command"]), *map(str, spec["args"])])  # type: ignore[call-overload]
        return {"command": "/bin/sh", "args": ["-c", f"echo $PPID >> {self.folder}/starts; exec {command}"]}

    def wardens(self) -> set[str]:
        """Whoever started servers; a gateway or a command has one for all that it starts."""
        return set((self.folder / "starts").read_text().split())

    def run(self, *words: str) -> str:
        done = run(*words, "--config", str(self.file), env=self.env)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("running"))


@pytest.fixture(scope="module")
def gateway(scene: Scene) -> Generator[Gateway]:
    with announced_gateway(scene.file, scene.env) as opened:
        yield opened


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("search", "what time is it"), "clock__now"),
        (("tools",), "notes__delete_note"),
        (("tools", "--server", "clock", "--format", "compact"), "clock__now\nclock__until\nclock__countdown\n"),
        (("servers", "--detailed"), "clock [ready] 3 tools"),
        (("discover", "--server", "notes"), "tidy_up"),
        (("test", "clock"), "clock: ready, 3 tools"),
        (("annotate", "--tool", "delete_note"), "dangerous"),
        (("exec", "slow", "echo", "text=hello"), "hello"),
        (("exec", "slow__echo", "text=hello"), "hello"),
    ],
)
def test_a_command_uses_the_gateway_that_serves_its_configuration(
    words: tuple[str, ...], printed: str, scene: Scene, gateway: Gateway
) -> None:
    assert printed in scene.run(*words)

    assert len(scene.wardens()) == 1


def test_a_call_of_exec_is_in_the_gateways_count(scene: Scene, gateway: Gateway) -> None:
    tally = gateway.hub.relay.tallies.servers.get("clock")
    before = tally.calls if tally is not None else 0

    scene.run("exec", "clock", "now")

    assert gateway.hub.relay.tallies.servers["clock"].calls == before + 1


def test_a_program_runs_in_the_gateway_with_its_value_on_standard_output(scene: Scene, gateway: Gateway) -> None:
    (scene.folder / "ok.py").write_text('print("looking")\n{"said": await slow__echo(text="hello")}')
    config = ("--config", str(scene.file))

    done = run("run", str(scene.folder / "ok.py"), *config, env=scene.env)
    failed = run("run", "-", *config, env=scene.env, stdin="x = 1\nawait slow__echo(1 / 0)")

    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"said": "hello"}, "looking\n")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Line 2: ZeroDivisionError" in failed.stderr
    assert len(scene.wardens()) == 1


def test_what_is_not_there_is_explained_as_without_a_gateway(scene: Scene, gateway: Gateway) -> None:
    done = run("exec", "clock__noww", "--config", str(scene.file), env=scene.env)

    assert (done.returncode, done.stderr) == (
        1,
        "trunkline: There is no tool 'clock__noww'. Did you mean 'clock__now'?\n",
    )


async def test_a_call_that_is_left_is_cancelled_at_the_gateway(scene: Scene, gateway: Gateway) -> None:
    found = find_running(load(scene.file, env=scene.env))
    assert found is not None
    entry = found.ask("tool", Entry, name="slow__hang")[0]
    lane = gateway.hub.relay.lane("slow")

    answers = LocalAnswers(5)
    call = asyncio.create_task(call_tool(found, entry, {}, timeout=60, answers=answers))
    await until(lambda: lane.inside == 1)
    call.cancel()

    await until(lambda: lane.inside == 0)


async def test_nobody_else_is_told_what_commands_are_told(scene: Scene, gateway: Gateway) -> None:
    address = gateway.url.removesuffix("/mcp") + "/api/v1/local"
    async with aiohttp.ClientSession() as http:
        for headers in ({}, {"authorization": "Bearer "}, {"authorization": f"bearer {gateway.key[:-1]}"}):
            async with http.post(address, data=b'{"about":"servers"}', headers=headers) as response:
                assert response.status == 403


def test_where_nothing_is_configured_the_servers_of_a_running_gateway_are_to_play_with(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    with announced_gateway(user_file(scene.env), scene.env):
        done = run("list", env=scene.env)

    assert "trunkline.demo.clock" in done.stdout
    assert "to play with, until you add one of your own" in done.stderr


def test_a_command_needs_no_token_where_it_can_read_the_gateways_home(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write(clock=stand_in("clock"))

    with announced_gateway(scene.file, {**scene.env, "TRUNKLINE_GATEWAY_TOKEN": "correct-horse-battery-staple"}):
        scene.run("exec", "now")

        assert len(scene.wardens()) == 1


def test_questions_on_the_way_are_asked_at_the_terminal(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.file = tmp_path / "trunkline.toml"
    spec = stand_in("notes")
    scene.file.write_text(
        f'[middleware]\nconfirm = "destructive"\n[servers.notes]\ncommand = "{spec["command"]}"\n'
        f"args = {json.dumps(spec['args'])}\n"
    )

    with announced_gateway(scene.file, scene.env) as opened:
        words = ("exec", "delete_note", "title=a", "--config", str(scene.file))
        refused = typed(*words, env=scene.env, answers="n\n")
        agreed = typed(*words, env=scene.env, answers="y\n")
        calls = opened.hub.relay.tallies.servers["notes"].calls

    assert (refused.returncode, agreed.returncode, calls) == (1, 0, 1), (refused, agreed)


def test_a_server_that_the_gateway_could_not_reach_is_tried_again_by_test(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    needed = tmp_path / "needed"
    flag = f"test -e {needed} || exit 1; "
    spec = stand_in("clock")
    script = flag + "exec " + shlex.join([spec["command"], *spec["args"]])
    scene.file.write_text(json.dumps({"mcpServers": {"clock": {"command": "/bin/sh", "args": ["-c", script]}}}))

    with announced_gateway(scene.file, scene.env):
        failed = run("test", "--config", str(scene.file), env=scene.env)
        needed.touch()

        assert failed.returncode == 3
        assert "1 of 1 server" in run("test", "--config", str(scene.file), env=scene.env).stderr


def test_a_gateway_that_ended_without_a_word_is_not_found(scene: Scene, gateway: Gateway) -> None:
    home, other = Path(scene.env["TRUNKLINE_HOME"]), scene.folder / "other.json"
    found = find_announcement(home, scene.file)
    assert found is not None
    folder = home / "gateways"
    left = hashlib.sha256(os.path.realpath(other).encode()).hexdigest()[:32]
    for file in list(folder.iterdir()):
        (folder / left).with_suffix(file.suffix).write_bytes(file.read_bytes())

    assert find_announcement(home, other) is None


def test_a_gateway_that_has_not_taken_on_the_file_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path)
    scene.write(clock=stand_in("clock"))
    monkeypatch.setattr(running, "TAKES_ON", 0.0)

    with announced_gateway(scene.file, scene.env):
        assert find_running(load(scene.file, env=scene.env)) is not None
        scene.write(notes=stand_in("notes"))

        assert find_running(load(scene.file, env=scene.env)) is None


def test_an_unreachable_server_is_an_unreachable_server_through_the_gateway_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write(one=faulty("--start", "exit"))

    with announced_gateway(scene.file, scene.env):
        done = run("exec", "one", "echo", "text=a", "--config", str(scene.file), env=scene.env)

    assert done.returncode == 3, done.stderr
    assert "Server 'one' is unreachable" in done.stderr
