"""What programs see that commands start, and what everyone on the machine sees of commands."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import Inside
from tests.harness import STDIO_SERVER
from trunkline.config.secrets import Secrets
from trunkline.upstream.process import INHERITED

SECRET = "s3cret-9a7c"
CANARY = "canary-4f1d"
OWN = "BRAVE_API_KEY"
# A program under test may be started more than once, so each start leaves a file of its own.
RECORD = """
import json, os, sys
numbers = [number for number in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + number)]
told = {"environ": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd(), "files": numbers}
with open(os.path.join(FOLDER, str(os.getpid())), "w") as file:
    json.dump(told, file)
os.execv(sys.executable, [sys.executable, "-S", SERVER])
"""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """Commands whose environment holds what is nobody's business, and an npx that writes down what it sees."""
    home = tmp_path / "home"
    (home / "programs").mkdir(parents=True)
    (home / "seen").mkdir()
    record = home / "record.py"
    record.write_text(f"FOLDER, SERVER = {str(home / 'seen')!r}, {str(STDIO_SERVER)!r}\n{RECORD}")
    (home / "programs" / "npx").write_text(f'#!/bin/sh\nexec {sys.executable} -S {record} "$@"\n')
    (home / "programs" / "npx").chmod(0o755)
    made = Inside(home, monkeypatch)
    made.set(PATH=f"{home / 'programs'}:{os.environ['PATH']}", TRUNKLINE_OFFLINE="1")
    made.set(AWS_SECRET_ACCESS_KEY=CANARY, TRUNKLINE_GATEWAY_TOKEN=f"{CANARY}-of-more-than-sixteen")
    Secrets(home / "t").set(f"brave-search.{OWN}", SECRET)
    return made


def seen(cli: Inside) -> list[dict[str, Any]]:
    """What every start saw."""
    return [json.loads(path.read_text()) for path in (cli.home / "seen").iterdir()]


def cursor(cli: Inside) -> None:
    """A client that has a server with a secret."""
    (cli.home / ".cursor").mkdir()
    server = {"command": "npx", "args": ["-y", "x"], "env": {OWN: SECRET}}
    (cli.home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"brave-search": server}}))


def manifest(cli: Inside) -> None:
    """A manifest that wants a secret, added without being started."""
    variables = [{"name": OWN, "isRequired": True, "isSecret": True}]
    package = {"registryType": "npm", "identifier": "x", "version": "1.0.0", "transport": {"type": "stdio"}}
    said = {"name": "com.example/brave-search", "description": "d", "version": "1.0.0"}
    (cli.home / "server.json").write_text(
        json.dumps({**said, "packages": [{**package, "environmentVariables": variables}]})
    )
    added = cli.run("add", "--manifest", str(cli.home), "--yes")
    assert added.returncode == 0, added.stderr
    assert seen(cli) == []


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (None, ("install", "brave-search")),
        (cursor, ("import", "--yes")),
        (manifest, ("test", "brave-search")),
        (manifest, ("doctor", "brave-search")),
        (manifest, ("tools",)),
    ],
    ids=["install", "import", "manifest", "doctor", "tools"],
)
def test_a_program_sees_its_own_secret_its_words_and_three_streams(cli: Inside, before: Any, words: Any) -> None:
    if before is not None:
        before(cli)

    done = cli.run(*words)

    assert done.returncode == 0, done.stdout + done.stderr
    assert seen(cli)
    for one in seen(cli):
        assert one["environ"][OWN] == SECRET
        assert set(one["environ"]) <= {*INHERITED, OWN, "TRUNKLINE_PROCESS", "LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_"}
        assert CANARY not in json.dumps(one)
        assert SECRET not in json.dumps(one["argv"])
        assert set(one["files"]) == {"0", "1", "2"}
        assert Path(one["cwd"]) == cli.home
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("secret", "set", "name", SECRET),
        ("up", "--token", SECRET),
        ("up", "--users", SECRET),
        ("install", "brave-search", "--env", f"{OWN}={SECRET}", "--force"),
        ("add", "--manifest", ".", "--set", f"{OWN}={SECRET}", "--yes", "--force"),
        ("top", "--token", SECRET),
        ("connect", "cursor", "--token", SECRET),
    ],
)
def test_no_command_takes_a_secret_where_everyone_can_read_it(cli: Inside, words: tuple[str, ...]) -> None:
    manifest(cli)

    done = cli.run(*words)

    assert done.returncode == 2, done.stderr
    assert seen(cli) == []


LEAKY = """
import os, sys
print("starting with", os.environ["STORE_PASSPHRASE"], *sys.argv[1:], file=sys.stderr)
print("second line", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize("words", [("test",), ("test", "--format", "json"), ("servers", "--detailed")])
def test_what_a_server_says_on_its_standard_error_is_shown_without_the_secrets_it_was_given(
    cli: Inside, words: tuple[str, ...]
) -> None:
    spec = {"command": sys.executable, "args": ["-S", "-c", LEAKY, "--token", CANARY]}
    (cli.home / "mcp.json").write_text(
        json.dumps({"mcpServers": {"leaky": {**spec, "env": {"STORE_PASSPHRASE": SECRET}}}})
    )

    done = cli.run(*words, "--config", "mcp.json", "--timeout", "5")

    assert "starting with ***" in done.stdout, done
    assert "second line" in done.stdout
    assert SECRET not in done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize("words", [("list",), ("list", "--format", "json"), ("servers", "--format", "json")])
def test_the_password_of_an_address_is_never_shown(cli: Inside, words: tuple[str, ...]) -> None:
    url = f"http://ann:{SECRET}@127.0.0.1:1/mcp?key={CANARY}"
    (cli.home / "mcp.json").write_text(json.dumps({"mcpServers": {"far": {"url": url}}}))

    done = cli.run(*words, "--config", "mcp.json")

    assert "http://127.0.0.1:1/mcp" in done.stdout
    assert SECRET not in done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr
