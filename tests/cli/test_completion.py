"""Completion in the shells themselves: what is offered after what was typed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import TRUNKLINE
from trunkline.cli.completion import bash, commands_of, fish
from trunkline.cli.main import parser
from trunkline.config.tenancy import StoreConfig
from trunkline.tenancy.tenancy import open_tenancy

Complete = Callable[[str], set[str]]
_BASH = """source ./script
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _trunkline; printf '%s\\n' "${{COMPREPLY[@]}}" """
# Zsh completes only where somebody types; this runs what it would run, on the words it would have.
_ZSH = """autoload -U compinit && compinit -u -D; source ./script
emulate -L sh; setopt kshglob noshglob braceexpand
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _trunkline; printf '%s\\n' "${{COMPREPLY[@]}}" """


@pytest.fixture(params=["bash", "zsh", "fish"])
def complete(request: pytest.FixtureRequest, tmp_path: Path) -> Complete:
    """What a shell offers for the last word of a line."""
    shell = str(request.param)
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(TRUNKLINE).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path)}
    (tmp_path / "trunkline.toml").write_text('[servers.github]\ncommand = "x"\n[servers.gitlab]\ncommand = "y"\n')
    add_users(tmp_path, "ana", "anton", "bob")
    made = subprocess.run([TRUNKLINE, "completion", shell], env=env, capture_output=True, text=True, check=True)
    (tmp_path / "script").write_text(made.stdout)

    def ask(line: str) -> set[str]:
        words = " ".join(f"'{word}'" for word in line.split(" "))
        script = {
            "bash": _BASH.format(words=words),
            "zsh": _ZSH.format(words=words),
            "fish": f"source script; complete -C '{line}'",
        }[shell]
        flags = ["-f"] if shell == "zsh" else []
        done = subprocess.run(
            [program, *flags, "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.stderr == ""
        offered = {text.split("\t")[0] for text in done.stdout.splitlines() if text}
        # What does not begin like the word, zsh leaves out itself when it shows them.
        return {text for text in offered if shell != "zsh" or text.startswith(line.rpartition(" ")[2])}

    return ask


def add_users(home: Path, *names: str) -> None:
    """Have users in the store of a home."""

    async def add() -> None:
        async with open_tenancy(StoreConfig(), home) as tenancy:
            for name in names:
                await tenancy.people.add_user(name)

    asyncio.run(add())


def test_commands_options_values_and_names_of_servers_and_users_are_completed(complete: Complete) -> None:
    assert {"up", "top", "tools", "registry", "completion"} <= complete("trunkline ")
    assert complete("trunkline to") == {"tools", "top"}
    assert {"--safety", "--server", "--format", "--config"} <= complete("trunkline tools --")
    assert complete("trunkline tools --safety ") == {"safe", "moderate", "dangerous"}
    assert complete("trunkline tools --safety dan") == {"dangerous"}
    assert complete("trunkline tools --server git") == {"github", "gitlab"}
    assert complete("trunkline remove gith") == {"github"}
    assert complete("trunkline key create --user an") == {"ana", "anton"}
    assert complete("trunkline user remove b") == {"bob"}
    assert {"search", "info", "list"} <= complete("trunkline registry ")
    assert "--safety" not in complete("trunkline registry search --")
    assert "trunkline.toml" in complete("trunkline up --config trunk")


def test_a_value_that_looks_like_a_command_is_none(complete: Complete) -> None:
    assert {"--safety", "--search"} <= complete("trunkline tools --search up --")


def test_every_command_and_option_is_in_the_scripts() -> None:
    commands = list(commands_of(parser(), ()))

    for command in commands:
        assert f'"{command.path}:-"*)' in bash(commands)
        for flag in command.flags:
            assert flag in bash(commands)
            assert (f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}") in fish(commands)
    assert len(commands) > 20


def test_names_are_none_where_the_configuration_is_broken(tmp_path: Path) -> None:
    (tmp_path / "trunkline.toml").write_text("[")
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}

    done = subprocess.run(
        [TRUNKLINE, "completion", "servers"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
