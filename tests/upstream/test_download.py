"""Servers that must be downloaded first: they are waited for while they are, and fetched once."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.faults.scene import get
from tests.harness import STDIO_SERVER, gateway, until
from tests.questions.scene import FORMS, Pair, scene, yes
from trunkline.cli.main import main
from trunkline.cli.running import RunningHub, running_at
from trunkline.config.server import ServerSpec
from trunkline.model import State
from trunkline.upstream.download import Work, package_of, still_fetches, work_of

RUNNER = """
import os, subprocess, sys, time
here = os.path.dirname(__file__)
fetching = os.path.join(here, "fetching")
def note(word):
    with open(os.path.join(here, "log"), "a") as log:
        log.write(word + " ")
there = os.path.exists(os.path.join(here, "there"))
try:
    os.mkdir(fetching)
    note("run" if there else "fetch")
except FileExistsError:
    note("twice")
while not os.path.exists(os.path.join(here, "there")):
    note("beat")
    time.sleep(0.02)
try:
    os.rmdir(fetching)
except FileNotFoundError:
    pass
sys.exit(subprocess.call(sys.argv[2:]))
"""
"""A stand-in for npx: it takes its time to fetch, then starts what follows the package as a child."""


class Machine:
    """A machine whose npx is a stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "npx.py").write_text(RUNNER)
        (folder / "npx").write_text(f'#!/bin/sh\nexec {sys.executable} -S {folder}/npx.py "$@"\n')
        (folder / "npx").chmod(0o755)

    def server(self, *command: str, **options: Any) -> dict[str, Any]:
        """A server that this npx has to fetch."""
        words = command or (sys.executable, "-S", str(STDIO_SERVER))
        env = {"PATH": f"{self.folder}:{os.defpath}"}
        return {"command": "npx", "args": [f"{self.folder}-package", *words], "env": env, **options}

    @property
    def log(self) -> list[str]:
        """What was done, word by word."""
        return (self.folder / "log").read_text().split() if (self.folder / "log").exists() else []

    def have(self) -> None:
        """The package is there."""
        (self.folder / "there").touch()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


async def test_a_server_that_is_being_downloaded_is_waited_for_and_says_so(
    tmp_path: Path, machine: Machine, http: aiohttp.ClientSession
) -> None:
    async with gateway(tmp_path / "home", {"one": machine.server(start_timeout=1.0)}, ready=0) as opened:
        await until(lambda: view(opened).reason == "being downloaded")
        beats = len(machine.log)
        await until(lambda: len(machine.log) > beats + 60)  # it outlives what an ordinary start may take
        waiting = (await get(http, opened.url, "/readyz"))["servers"]["one"]
        machine.have()
        await until(lambda: view(opened).state is State.READY)

    assert waiting == {"state": "starting", "reason": "being downloaded"}
    # Once it is there, it may be run again: a legacy server is looked at with two pairs of eyes.
    assert [word for word in machine.log if word not in ("beat", "run")] == ["fetch"]


async def test_one_package_is_never_fetched_twice_at_once(tmp_path: Path, machine: Machine) -> None:
    servers = {f"s{number}": machine.server(start_timeout=5) for number in range(3)}
    async with gateway(tmp_path / "home", servers, ready=0) as opened:
        await until(lambda: len(machine.log) > 10)
        machine.have()
        await until(lambda: all(one.state is State.READY for one in opened.hub.servers()))

    assert [word for word in machine.log if word not in ("beat", "run")] == ["fetch"]


async def test_a_server_that_hangs_after_its_download_is_given_up(tmp_path: Path, machine: Machine) -> None:
    machine.have()
    async with gateway(tmp_path / "home", {"one": machine.server("sleep", "60", start_timeout=0.4)}) as opened:
        await until(lambda: view(opened).state is State.UNREACHABLE)

        assert "did not answer within 0.4 s of its" in view(opened).reason


async def test_a_download_has_an_end(tmp_path: Path, machine: Machine) -> None:
    slow = machine.server(start_timeout=0.2, download_timeout=0.5)
    async with gateway(tmp_path / "home", {"one": slow}) as opened:
        await until(lambda: view(opened).state is State.UNREACHABLE)

        assert "was still being downloaded after 0.5 s" in view(opened).reason


async def test_a_hub_and_commands_wait_longer_for_what_is_being_downloaded(tmp_path: Path, machine: Machine) -> None:
    async with gateway(tmp_path / "home", {"one": machine.server()}, ready=0) as opened:
        hub, config = opened.hub, opened.hub.config
        await until(lambda: view(opened).reason == "being downloaded")
        await hub.ready(0)
        commands = RunningHub(running_at(opened.url, config.gateway), config)
        waiting = [
            asyncio.ensure_future(asyncio.to_thread(asyncio.run, commands.ready(0))),
            asyncio.create_task(hub.ready(0, downloads=True)),
        ]
        beats = len(machine.log)
        await until(lambda: len(machine.log) > beats + 10)
        ended = [one.done() for one in waiting]
        machine.have()
        await waiting[1]

        assert (ended, view(opened).state) == ([False, False], State.READY)
        await waiting[0]


@pytest.mark.parametrize(
    ("words", "package"),
    [
        ("npx -y @scope/name@1.2 /folder", "npx @scope/name@1.2"),
        ("npx --yes --package=name cmd", "npx name"),
        ("npx -p name cmd", "npx name"),
        ("/usr/bin/npx name", "npx name"),
        ("npm exec -y -- name", "npm name"),
        ("uvx --python 3.12 name==1", "uvx name==1"),
        ("uvx -p 3.12 --from name[cli] cmd", "uvx name[cli]"),
        ("uv tool run name", "uv name"),
        ("pipx run --spec name==2 cmd", "pipx name==2"),
        ("pnpm dlx name", "pnpm name"),
        ("bunx name", "bunx name"),
        ("sh -c 'npx -y name'", "npx name"),
        ("env A=1 npx name", "npx name"),
        ("cmd /c npx.cmd name", "npx name"),
        ("docker run -i image", ""),
        ("node npx", ""),
        ("npx", ""),
    ],
)
def test_the_package_is_told_from_the_command(words: str, package: str) -> None:
    command, *args = shlex.split(words)

    assert package_of(ServerSpec(command=command, args=tuple(args))) == package


@pytest.mark.parametrize(
    ("runner", "now", "fetches"),
    [
        ("docker", Work(10, 5000, frozenset((1,))), False),
        ("docker", Work(11, 5100, frozenset((1,))), False),
        ("docker", Work(12, 5000, frozenset((1,))), True),
        ("docker", Work(10, 6024, frozenset((1,))), True),
        ("docker", Work(10, 5000, frozenset((1, 2))), True),
        ("npx", Work(10, 5000, frozenset((1,))), False),
        ("npx", Work(10, 5000, frozenset((1,)), runner_alone=True), True),
        ("docker", Work(10, 5000, frozenset((1,)), runner_alone=True), False),
    ],
)
def test_a_runner_fetches_while_it_works_or_has_no_server_below_it(runner: str, now: Work, fetches: bool) -> None:
    assert still_fetches(runner, Work(10, 5000, frozenset((1,))), now) is fetches


def test_the_work_of_a_program_is_seen() -> None:
    before = work_of(os.getpid())
    Path("/proc/self/maps").read_bytes()
    after = work_of(os.getpid())

    assert before is not None
    assert after is not None
    assert after.bytes > before.bytes
    assert work_of(2**30) is None


async def test_a_modern_server_that_is_slow_can_be_started_a_second_time(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    """It needs longer than the question about its era is usually given."""
    pair = Pair("modern", "modern", "stdio")
    async with scene(tmp_path, http, pair, "--late", "1.2", server={"start_timeout": 2.0}) as at:
        caller = await at.talker(FORMS)
        await caller.call("shop__order", at.args("tea"), yes)
        at.kill()
        await until(lambda: view(at.opened).state is not State.READY)
        told = await caller.call("shop__order", at.args("milk"), yes)

    assert told.text == "ordered milk"


def view(opened: Any) -> Any:
    return opened.hub.servers()[0]


def test_add_downloads_first_and_adds_what_does_not_start_with_the_reason(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{machine.folder}:{os.defpath}")
    machine.have()
    file = tmp_path / "trunkline.toml"
    words = ["add", "--config", str(file)]

    good = main([*words, "good", "npx", "good-package", sys.executable, "-S", str(STDIO_SERVER)])
    told = capsys.readouterr().err
    bad = main([*words, "bad", "npx", "bad-package", "false"])
    why = capsys.readouterr().err
    main([*words, "--no-download", "later", "npx", "other-package", "false"])

    assert (good, bad) == (0, 0)
    assert "npx downloads and starts good-package once" in told
    assert "Added 'good'" in told
    assert "It does not start yet: Server 'bad' exited with code 1" in why
    assert machine.log == ["run", "run"]
    assert [name in file.read_text() for name in ("[servers.good]", "[servers.bad]", "[servers.later]")] == [True] * 3
