"""What is installed is what was locked: exact versions by their hashes, without known holes, from nowhere else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import TRUNKLINE
from trunkline.upstream.process import SCRIPT

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
FLOORS = {"starlette": (1, 3), "mcp": (2, 2), "fastmcp": (4, 1, 2)}
"""Older ones have holes that became known."""


def locked(file: Path) -> dict[str, str]:
    """What a lock file names, each with all that is said of it."""
    entries = re.split(r"(?m)^(?=\S)", file.read_text())
    return {
        re.split(r"[=\s\[;]", entry, maxsplit=1)[0]: entry for entry in entries if not entry.startswith("#") and entry
    }


@pytest.mark.parametrize("file", LOCKS, ids=[file.stem for file in LOCKS])
def test_everything_locked_has_an_exact_version_and_hashes_and_no_address(file: Path) -> None:
    entries = locked(file)

    assert entries
    assert not [name for name, entry in entries.items() if not re.match(r"\S+?==[\w.+!-]+", entry)]
    assert not [name for name, entry in entries.items() if "--hash=sha256:" not in entry]
    assert not [name for name, entry in entries.items() if re.search(r"://|(?m:^--)|\s-[ef]\s", entry)]


@pytest.mark.parametrize("name", ["run", "dev"])
def test_no_version_with_a_known_hole_is_locked(name: str) -> None:
    entries = locked(ROOT / "requirements" / f"{name}.txt")
    versions = {one: re.findall(r"\d+", entries[one].partition("==")[2].split()[0]) for one in FLOORS if one in entries}

    assert {"mcp", "starlette"} <= versions.keys()
    assert not [one for one, found in versions.items() if tuple(map(int, found)) < FLOORS[one]]


def test_everything_of_npm_is_locked_by_its_integrity() -> None:
    packages: dict[str, Any] = json.loads((ROOT / "tests" / "real" / "package-lock.json").read_text())["packages"]

    assert packages
    assert not [name for name, one in packages.items() if name and not one.get("integrity", "").startswith("sha512-")]


def test_nothing_is_installed_without_hashes() -> None:
    recipes = "".join((ROOT / name).read_text() for name in ("Makefile", "tools.mk", ".ci/run"))
    installs = [line.strip() for line in recipes.splitlines() if re.search(r"(pip install|\$\(UV\)) ", line)]

    assert installs
    for line in installs:
        assert line.startswith("UV :=") or "--require-hashes" in line or "--no-deps --no-build-isolation -e ." in line
    assert not re.search(r"npm\S* (i|add|exec)\b|\bnpx\b|curl|wget", recipes)


def test_the_warden_is_our_own_by_its_full_path_whatever_lies_on_the_path(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in ("python", "python3", Path(sys.executable).name, "sh", "env", "trunkline"):
        (tmp_path / name).write_text(f"#!/bin/sh\n: > {canary}\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "trunkline.toml").write_text(f'[servers.one]\ncommand = "{sys.executable}"\nargs = ["-c", ""]\n')
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": "", "TRUNKLINE_HOME": str(tmp_path / "t")}

    done = subprocess.run(
        [TRUNKLINE, "test", "--timeout", "5"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert SCRIPT.is_absolute()
    assert done.returncode != 0
    assert "exited with code 0" in done.stdout + done.stderr
    assert not canary.exists()
