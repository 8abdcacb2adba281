"""Every example line of the commands, as it is typed: from an empty home, and once more after all of them.

The first line of each command runs in a shell, and so in a process that has imported nothing yet; the others run here,
where their words are read as a shell reads them.

Nothing is taken from the network. `npx` and `node` are small programs in a folder of `PATH`, which start a stand-in
for the server that they are asked for. GitHub's server runs elsewhere: once it is installed, its address is replaced by
that of a stand-in on this machine, and given back before it is installed again.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import Done, Inside, run
from tests.cli.stand_in import PROGRAM, at_an_address
from tests.cli.stand_in_server import TOOLS
from tests.harness import TRUNKLINE, compiled, faulty
from trunkline.cli.completion import commands_of
from trunkline.cli.main import COMMANDS, parser

GITHUB = "https://api.githubcopilot.com/mcp/"
INSTALL_GITHUB = "trunkline install github"
BEGIN = "Begin with `trunkline add NAME COMMAND`"
TO_INSTALL = "Begin with `trunkline install github`."


@dataclass(frozen=True)
class Line:
    """A line, and what is printed for it at first and from then on."""

    typed: str
    first: str
    again: str = ""
    """Empty when it is the same."""


LINES = (
    Line("trunkline list", "There is no configuration yet.", "4 servers in "),
    Line("trunkline servers", BEGIN, "4 of 4 servers ready, 6 tools."),
    Line("trunkline servers --status connected", BEGIN, "● github [ready] 1 tool"),
    Line("trunkline servers --category database", BEGIN, "1 of 1 server ready, 1 tool."),
    Line("trunkline servers --detailed", BEGIN, "protocol 2025-06-18; 3 tools"),
    Line("trunkline tools", BEGIN, "6 tools ("),
    Line("trunkline tools --server github", TO_INSTALL, "github__list_repos"),
    Line("trunkline tools --category file-system", BEGIN, "data-api__read_file"),
    Line("trunkline tools --tag sql", BEGIN, "postgres__query"),
    Line("trunkline tools --safety dangerous", BEGIN, "data-api__deleteUser"),
    Line("trunkline tools --annotations", BEGIN, "[DESTRUCTIVE"),
    Line('trunkline tools --search "read file"', BEGIN, "data-api__read_file"),
    Line("trunkline discover", BEGIN, "4 of 4 servers, 6 tools: nothing new."),
    Line("trunkline discover --server github", TO_INSTALL, "● github [ready] 1 tool\n"),
    Line("trunkline discover --infer-annotations", BEGIN, "The name says 'delete'."),
    Line("trunkline create-server my-data-server", "Created 'my-data-server'", "'my-data-server' is there already"),
    Line(
        "trunkline create-server my-server --template basic --output ./servers",
        "Created 'my-server'",
        "'my-server' is there already",
    ),
    Line(
        "trunkline create-server my-server --tools readData,writeData,listItems",
        "Created 'my-server'",
        "'my-server' is there already",
    ),
    Line("trunkline annotate --tool deleteUser --destructive", "destructive_hint = true"),
    Line("trunkline annotate --tool getUser --read-only --idempotent", "read_only_hint = true"),
    Line("trunkline annotate --infer", BEGIN, "6 tools: "),
    Line("trunkline annotate --list", BEGIN, "[read-only | idempotent"),
    Line("trunkline install postgres", "It lists 1 tool: query", "'postgres' is installed already"),
    Line(INSTALL_GITHUB, "Installed 'github'", "'github' is installed already"),
    Line("trunkline install brave-search", "It lists 1 tool:", "'brave-search' is installed already"),
    Line('trunkline add my-server "npx -y @my-org/my-mcp-server"', "Added 'my-server'"),
    Line('trunkline add data-api "node ./servers/data.js"', "Added 'data-api'", "already, the same."),
    Line("trunkline test", "5 of 5 servers work."),
    Line("trunkline test github", "✓ github: ready, 1 tool"),
    Line("trunkline test postgres --timeout 10000", "✓ postgres: ready, 1 tool"),
    Line("trunkline exec github list_repos", "list_repos was given {}"),
    Line(
        """trunkline exec postgres query --params '{"sql": "SELECT * FROM users LIMIT 5"}'""",
        'query was given {"sql": "SELECT * FROM users LIMIT 5"}',
    ),
    Line("trunkline remove my-server", "Removed 'my-server'"),
    Line("trunkline registry search database", "Run SQL queries in a PostgreSQL database"),
    Line("trunkline registry list", "25 of 36 servers."),
    Line("trunkline registry info postgres", "Install it: trunkline install postgres"),
    Line("trunkline registry categories", "version-control"),
    Line("trunkline registry popular", "2. github"),
)


class Desk:
    """A home that begins empty, programs that start stand-ins, and a shell."""

    def __init__(self, home: Path, github: str) -> None:
        programs = home / "programs"
        programs.mkdir()
        for name in ("npx", "node"):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -S {compiled(PROGRAM)} "$@"\n')
            (programs / name).chmod(0o755)
        self.home, self._github = home, github
        self.file = home / ".config" / "trunkline" / "trunkline.toml"
        self.env = {
            "HOME": str(home),
            "PATH": os.pathsep.join((str(programs), str(Path(TRUNKLINE).parent), "/usr/bin", "/bin")),
            "TRUNKLINE_OFFLINE": "1",
            "DATABASE_URL": "postgresql://localhost/shop",
            "BRAVE_API_KEY": "any",
        }

    def type(self, line: str, *, shell: bool = False) -> tuple[int, str]:
        """Run a line, in a shell or here, which is faster; its exit code, and all that it printed."""
        if line == INSTALL_GITHUB:
            self._replace(self._github, GITHUB)
        done = self._in_a_shell(line) if shell else self._here(line)
        if line == INSTALL_GITHUB:
            assert self.servers()["github"]["url"] == GITHUB
            self._replace(GITHUB, self._github)
            self._here("trunkline secret set github.GITHUB_PERSONAL_ACCESS_TOKEN", stdin="token\n")
        return done.returncode, done.stdout

    def _in_a_shell(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line],
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )

    def _here(self, line: str, *, stdin: str = "") -> Done:
        return run(*shlex.split(line)[1:], env=self.env, stdin=stdin, merged=True)

    def _replace(self, old: str, new: str) -> None:
        if self.file.exists():
            self.file.write_text(self.file.read_text().replace(old, new))

    def document(self) -> dict[str, Any]:
        """What the configuration holds."""
        return tomllib.loads(self.file.read_text())

    def servers(self) -> dict[str, Any]:
        """The servers in it."""
        return self.document()["servers"]

    def state(self, *names: str) -> list[str]:
        """The files below a folder of what is remembered."""
        return sorted(path.stem for path in self.home.joinpath(".local", "share", "trunkline", *names).glob("*.json"))


@pytest.fixture
def desk(tmp_path: Path) -> Generator[Desk]:
    with at_an_address(TOOLS["github"], "token") as github:
        yield Desk(tmp_path, github)


@pytest.fixture
def cli(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """The same home and environment in this process, which is faster."""
    made = Inside(desk.home, monkeypatch)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "TRUNKLINE_HOME"):
        monkeypatch.delenv(name, raising=False)
    made.set(**desk.env)
    return made


def check_what_stays(desk: Desk) -> None:
    """All that was installed, added, created and seen is there; what was removed is not."""
    assert desk.document()["tools"] == {
        "deleteUser": {"destructive_hint": True},
        "getUser": {"read_only_hint": True, "idempotent_hint": True},
    }
    assert list(desk.servers()) == ["postgres", "github", "brave-search", "data-api"]
    assert desk.servers()["data-api"]["args"] == ["./servers/data.js"]
    assert desk.state("history") == ["brave-search", "data-api", "github", "my-server", "postgres"]
    for folder in ("my-data-server", "servers/my-server", "my-server"):
        assert (desk.home / folder / "pyproject.toml").exists()
    assert "def listItems(" in (desk.home / "my-server" / "src" / "my_server.py").read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_line_works_from_an_empty_home_and_once_more_after_all_of_them_and_stays(desk: Desk) -> None:
    tried: set[str] = set()
    for line in LINES:
        command = line.typed.split()[1]
        code, text = desk.type(line.typed, shell=command not in tried)
        tried.add(command)

        check_what_was_printed(line.typed, code, text, line.first)
    check_what_stays(desk)

    for line in LINES:
        code, text = desk.type(line.typed)

        check_what_was_printed(line.typed, code, text, line.again or line.first)
    check_what_stays(desk)
    assert desk.state() == ["discovered", "secrets"]


def check_what_was_printed(typed: str, code: int, text: str, wanted: str) -> None:
    assert (typed, code, text) == (typed, 0, text)
    assert wanted in text, typed
    assert "Traceback" not in text, typed


# What else must hold for these lines.


def test_what_is_said_of_a_tool_that_no_server_has_counts_for_the_server_that_comes(cli: Inside, desk: Desk) -> None:
    cli.run("annotate", "--tool", "echo", "--destructive", "--cost", "2")
    cli.run("annotate", "--tool", "echo", "--cost", "3")
    cli.run("add", "one", *command(faulty()))
    cli.run("annotate", "--server", "one", "--tool", "echo", "--cost", "4")

    known = json.loads(cli.run("tools", "--annotations", "--search", "echo", "--format", "json").stdout)["tools"]

    assert desk.document()["tools"] == {"echo": {"destructive_hint": True, "cost_hint": 3.0}}
    echo = next(tool["known"] for tool in known if tool["name"] == "echo")
    assert (echo["destructive_hint"], echo["cost_hint"]) == (True, 4.0)


def test_states_have_the_words_of_other_programs_too(cli: Inside) -> None:
    cli.run("add", "good", *command(faulty()))
    cli.run("add", "bad", "no-such-program")
    cli.run("add", "unset", "--env", "KEY=${env:NO_SUCH_VARIABLE}", "x")

    found = {
        word: cli.run("servers", "--status", word, "--format", "compact").stdout.split()[::2]
        for word in ("all", "connected", "disconnected", "failed", "ready")
    }

    assert found["all"] == ["good", "bad", "unset"]
    assert found["connected"] == found["ready"] == ["good"]
    assert found["disconnected"] == found["failed"] == ["bad", "unset"]


def test_a_server_that_is_added_again_stays_unless_something_differs(cli: Inside, desk: Desk) -> None:
    first = cli.run("add", "--env", "A=1", "docs", "npx", "-y", "docs")
    desk.file.write_text(desk.file.read_text() + "# mine\n")
    before = desk.file.read_text()
    same = cli.run("add", "--env", "A=1", "docs", "npx -y docs")
    told = json.loads(cli.run("add", "--format", "json", "--env", "A=1", "docs", "npx -y docs").stdout)
    other = cli.run("add", "--env", "A=2", "docs", "npx", "-y", "docs")

    assert (first.returncode, same.returncode, told["already"], other.returncode) == (0, 0, True, 2)
    assert "There is a server 'docs' already. Replace it with --force." in other.stderr
    assert desk.file.read_text() == before


def test_a_command_in_one_text_is_read_as_a_shell_reads_it(cli: Inside, desk: Desk) -> None:
    (desk.home / "my program").touch()

    cli.run("add", "quoted", "node 'a b.js' --x")
    cli.run("add", "whole", f"{desk.home}/my program")
    broken = cli.run("add", "broken", "node 'a")

    assert desk.servers()["quoted"] == {"command": "node", "args": ["a b.js", "--x"]}
    assert desk.servers()["whole"] == {"command": f"{desk.home}/my program"}
    assert (broken.returncode, "Close its quotes." in broken.stderr) == (2, True)


def test_a_file_that_is_near_is_found_from_elsewhere_too(cli: Inside, desk: Desk) -> None:
    cli.run("add", "far", "node ./data.js")
    cli.run("add", "--config", "trunkline.toml", "near", "node ./data.js")

    assert desk.servers()["far"]["cwd"] == str(desk.home)
    assert "cwd" not in (desk.home / "trunkline.toml").read_text()


def test_a_project_that_somebody_worked_on_is_not_made_again(cli: Inside, desk: Desk) -> None:
    cli.run("create-server", "shop")
    (desk.home / "shop" / "src" / "shop.py").write_text("mine")

    again = cli.run("create-server", "shop")

    assert (again.returncode, "is not empty" in again.stderr) == (2, True)
    assert (desk.home / "shop" / "src" / "shop.py").read_text() == "mine"


def test_a_server_that_the_catalogue_knows_is_said_to_be_there_to_install(cli: Inside) -> None:
    using = ("test github", "exec github list_repos")
    looking = ("tools --server github", "discover --server github", "annotate --list --server github")
    empty = [cli.run(*line.split()) for line in using]
    looked = [cli.run(*line.split()) for line in looking]
    cli.run("add", "one", "x")
    some = [cli.run(*line.split()) for line in (*using, *looking, "search repos --server github")]

    for done in (*empty, *some):
        assert done.returncode == 2
        assert "There is no server 'github'." in done.stderr
        assert "Install it with `trunkline install github`." in done.stderr
    assert all("There are: one." in done.stderr for done in some)
    for done in looked:
        assert (done.returncode, TO_INSTALL in done.stderr) == (0, True)


def test_only_the_server_that_is_named_is_started(cli: Inside, desk: Desk) -> None:
    log = desk.home / "log"
    cli.run("add", "one", *command(faulty()))
    cli.run("add", "other", *command(faulty("--log", str(log))))

    called = cli.run("exec", "one", "echo", "text=hello")
    listed = cli.run("tools", "--server", "one", "--format", "compact")
    cli.run("discover", "--server", "one")
    cli.run("annotate", "--list", "--server", "one")

    assert (called.returncode, called.stdout) == (0, "hello\n")
    assert "one__echo" in listed.stdout.split()
    assert not log.exists()


def test_a_server_that_does_not_answer_in_time_is_said_to(cli: Inside) -> None:
    cli.run("add", "slow", *command(faulty("--start", "hang")))

    tested = cli.run("test", "--timeout", "0.1")
    called = cli.run("exec", "slow", "echo", "--timeout", "0.1")

    assert (tested.returncode, called.returncode) == (3, 3)
    assert "It did not answer within 0.1 s. Wait longer with --timeout." in tested.stdout
    assert "It did not answer within 0.1 s. Wait longer with --timeout." in called.stderr


def test_a_command_loads_no_other() -> None:
    code = "import sys; from trunkline.cli.main import parser; parser('servers'); print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert "trunkline.cli.show" in loaded
    assert not {"trunkline.cli.install", "trunkline.cli.doctor", "trunkline.cli.discover", "trunkline.hub"} & {*loaded}


def test_list_loads_what_reads_the_file_and_nothing_that_runs_servers(tmp_path: Path) -> None:
    (pins := tmp_path / "pins").mkdir()
    (pins / "clock.json").write_text('{"format": 1, "server": "clock", "begun": ["plain"], "waiting": {"tools": {}}}')
    (file := tmp_path / "trunkline.toml").write_text('[servers.clock]\ncommand = "uvx"\nargs = ["mcp-server-time"]\n')
    run(
        "store",
        "migrate",
        "--config",
        str(file),
        env={**os.environ, "HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path)},
    )
    code = f"import sys; from trunkline.cli.main import main; main(['list', '--config', {str(file)!r}])"
    command, env = (
        [sys.executable, "-c", f"{code}; print(*sys.modules)"],
        {**os.environ, "TRUNKLINE_HOME": str(tmp_path)},
    )

    listed = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()

    assert listed[1].split() == ["clock", "stdio", "uvx", "mcp-server-time"]
    assert (tmp_path / "trunkline.db").exists()
    loaded = set(listed[-1].split())
    needed = {"cli", "clients", "config", "control", "errors", "storage", "telemetry", "tool", "untrusted", "version"}
    assert {name.split(".")[1] for name in loaded if name.startswith("trunkline.")} == needed
    assert not {"asyncio", "trunkline.config.secrets", "trunkline.storage.sealing"} & loaded


def test_help_loads_no_command() -> None:
    code = "import sys; from trunkline.cli.main import parser; parser('--help').format_help(); print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    ours = {name for name in loaded if name.startswith("trunkline.")}
    assert ours == {"trunkline.cli", "trunkline.cli.main", "trunkline.version"}


def test_every_command_is_known_by_its_module() -> None:
    everything = {command.path for command in commands_of(parser(), ()) if len(command.words) == 1}

    assert everything == {*COMMANDS}
    for name in everything:
        alone = {command.words[0] for command in commands_of(parser(name), ()) if command.words}
        assert name in alone


def command(spec: dict[str, Any]) -> list[str]:
    """The words that start a server."""
    return [spec["command"], *spec["args"]]
