"""`trunkline add --manifest`, as a stranger uses it: shown, agreed to, written, and only then ever run."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import run
from tests.cli.terminal import at_terminal
from tests.cli.test_commands import home
from tests.install.manifests.samples import PLUGIN, npm, plugin_folder, remote

__all__ = ["home"]

VALUE = "s3cret-9a7c"


def write(home: dict[str, str], value: Any, name: str = "server.json") -> str:
    folder = Path(home["HOME"]) / "plugin"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(value))
    return str(folder)


def servers(home: dict[str, str]) -> dict[str, Any]:
    file = Path(home["XDG_CONFIG_HOME"]) / "trunkline" / "trunkline.toml"
    return tomllib.loads(file.read_text())["servers"] if file.exists() else {}


def test_without_a_terminal_and_without_yes_the_command_is_shown_and_nothing_is_added(home: dict[str, str]) -> None:
    done = run("add", "--manifest", write(home, PLUGIN, "plugin.json"), env=home)

    assert done.returncode == 1
    assert "  uvx mcp-server-github@1.0.0\n" in done.stderr
    assert "GITHUB_TOKEN (secret; required) A token" in done.stderr
    assert "Say --yes" in done.stderr
    assert servers(home) == {}


def test_with_yes_it_is_written_with_references_in_the_place_of_secrets(home: dict[str, str]) -> None:
    folder = write(home, PLUGIN, "plugin.json")

    done = run("add", "--manifest", folder, "--yes", env=home)
    again = run("add", "--manifest", folder, "--yes", env=home)
    named = run("add", "gh", "--manifest", f"{folder}/plugin.json", "-y", "--format", "json", env=home)

    assert done.returncode == 0, done.stderr
    assert "trunkline secret set github.GITHUB_TOKEN" in done.stderr
    assert (again.returncode, "There is a server 'github' already" in again.stderr) == (2, True)
    told = json.loads(named.stdout)
    assert (told["command"], told["unset"]) == (["uvx", "mcp-server-github@1.0.0"], ["gh.GITHUB_TOKEN"])
    assert len(told["fingerprint"]) == 64
    assert servers(home) == {
        name: {
            "command": "uvx",
            "args": ["mcp-server-github@1.0.0"],
            "env": {"GITHUB_TOKEN": f"${{secret:{name}.GITHUB_TOKEN}}"},
        }
        for name in ("github", "gh")
    }


def test_a_person_is_asked_and_typed_secrets_are_kept_and_never_shown(home: dict[str, str]) -> None:
    arguments = [{"type": "positional", "valueHint": "folder", "isRequired": True, "format": "filepath"}]
    variables = [
        {"name": "KEY", "isSecret": True, "isRequired": True},
        {"name": "OPTIONAL", "isSecret": True},
        {"name": "PORT", "isRequired": True, "format": "number", "default": "80"},
    ]
    folder = write(home, npm(packageArguments=arguments, environmentVariables=variables))
    answers = {"folder: ": "~/docs", "KEY (it": VALUE, "OPTIONAL (it": "", "PORT [80]": "", "Add it?": "y"}

    code, screen = at_terminal("add", "--manifest", folder, env=home, answers=answers)

    assert code == 0, screen
    assert VALUE not in screen
    assert servers(home)["weather"] == {
        "command": "npx",
        "args": ["-y", "@acme/weather@1.2.3", f"{home['HOME']}/docs"],
        "env": {"KEY": "${secret:weather.KEY}", "PORT": "80"},
    }
    assert run("secret", "list", env=home).stdout == "weather.KEY\n"
    assert "problem" not in run("list", "--format", "json", env=home).stdout


def test_a_person_who_says_no_keeps_everything_as_it_was(home: dict[str, str]) -> None:
    folder = write(home, npm(environmentVariables=[{"name": "KEY", "isSecret": True, "isRequired": True}]))

    code, screen = at_terminal(
        "add", "--manifest", folder, env=home, answers={"KEY (it": VALUE, "Add it?": "", "nothing": ""}
    )

    assert (code, "Nothing was added." in screen) == (1, True)
    assert servers(home) == {}
    assert run("secret", "list", env=home).stdout == ""


def test_a_secret_that_is_kept_already_is_used(home: dict[str, str]) -> None:
    run("secret", "set", "weather.KEY", env=home, stdin=VALUE)
    folder = write(home, npm(environmentVariables=[{"name": "KEY", "isSecret": True}]))

    run("add", "--manifest", folder, "--yes", env=home)

    assert servers(home)["weather"]["env"] == {"KEY": "${secret:weather.KEY}"}


def test_answers_are_given_by_set_but_secrets_are_not(home: dict[str, str]) -> None:
    arguments = [
        {"type": "named", "name": "--port", "format": "number", "isRequired": True},
        {"type": "positional", "valueHint": "folders", "isRepeated": True},
    ]
    folder = write(home, npm(packageArguments=arguments, environmentVariables=[{"name": "KEY", "isSecret": True}]))
    words = ("add", "--manifest", folder, "--yes")

    missing = run(*words, env=home)
    secret = run(*words, "--set=--port=80", "--set", f"KEY={VALUE}", env=home)
    unknown = run(*words, "--set=--port=80", "--set", "NOPE=1", env=home)
    other = run(*words, "--env", "A=1", env=home)
    done = run(
        *(*words, "--set=--port=80", "--set", "folders=/a", "--set", "folders=b=c", "--set", "KEY=${env:MY_KEY}"),
        env={**home, "MY_KEY": VALUE},
    )

    assert (missing.returncode, "It needs --port" in missing.stderr) == (1, True)
    assert (secret.returncode, "trunkline secret set weather.KEY" in secret.stderr) == (2, True)
    assert (unknown.returncode, "does not ask for NOPE" in unknown.stderr) == (1, True)
    assert (other.returncode, "--set NAME=VALUE" in other.stderr) == (2, True)
    assert done.returncode == 0, done.stderr
    assert servers(home)["weather"]["args"] == ["-y", "@acme/weather@1.2.3", "--port=80", "/a", "b=c"]
    assert servers(home)["weather"]["env"] == {"KEY": "${env:MY_KEY}"}


def test_a_remote_is_written_with_its_headers(home: dict[str, str]) -> None:
    header = {
        "name": "Authorization",
        "value": "Bearer {token}",
        "variables": {"token": {"isSecret": True, "isRequired": True}},
    }
    folder = write(home, remote("https://h.example/sse", type="sse", headers=[header]))

    run("add", "far", "--manifest", folder, "--yes", env=home)

    assert servers(home)["far"] == {
        "url": "https://h.example/sse",
        "headers": {"Authorization": "Bearer ${secret:far.token}"},
        "transport": "sse",
    }


def test_a_manifest_cannot_write_over_the_screen(home: dict[str, str]) -> None:
    value = npm(packageArguments=[{"type": "positional", "value": "\x1b[2K\rnpx harmless\u202e"}])
    value |= {"description": "\x1b]0;x\x07Nice", "title": "\x1b[8mhidden"}

    done = run("add", "--manifest", write(home, value), env=home)

    assert not [c for c in done.stderr if not c.isprintable() and c != "\n"]
    assert "\\x1b[2K\\rnpx harmless\\u202e" in done.stderr


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ([], "must be an object"),
        ({"name": "a", "command": ["sh", "-c", "touch canary"]}, "runs whatever it is told"),
        ({"name": "a", "command": ["../canary.py"], "runtime": "python3"}, "leads out of"),
        (npm(version="latest"), "no exact version"),
        (npm(environmentVariables=[{"name": "A", "value": "${env:HOME}"}]), "refers to variables of yours"),
    ],
)
def test_a_bad_manifest_is_refused_and_nothing_is_run(value: Any, complaint: str, home: dict[str, str]) -> None:
    script = Path(home["HOME"]) / "canary.py"
    script.write_text("open('canary', 'w')")

    done = run("add", "--manifest", write(home, value), "--yes", env=home)

    assert (done.returncode, complaint in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(Path(home["HOME"]).rglob("canary"))
    assert servers(home) == {}


def test_what_was_added_works(home: dict[str, str], tmp_path: Path) -> None:
    env = {**home, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    variable = {"name": "API_KEY", "required": True, "secret": True}
    folder = plugin_folder(tmp_path / "p", environment_variables=[variable])
    run("secret", "set", "echo.API_KEY", env=env, stdin=VALUE)

    added = run("add", "--manifest", str(folder), "--yes", env=env)
    said = run("exec", "echo", "env", "--format", "compact", env=env)

    assert added.returncode == 0, added.stderr
    seen = json.loads(said.stdout)
    assert seen["environ"]["API_KEY"] == VALUE
    assert VALUE not in added.stderr


def test_the_help_shows_how(home: dict[str, str]) -> None:
    said = " ".join(run("add", "--help", env=home).stdout.split())

    assert "trunkline add --manifest ./plugins/github" in said
    assert "nothing is run" in said
