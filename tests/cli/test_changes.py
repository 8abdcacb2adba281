"""`trunkline tools --changes`, as a stranger uses it."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from tests.call.stages.till import teller
from tests.cli.inside import Done, run
from tests.harness import faulty

COIN = {"name": "toss_coin", "description": "Toss a coin.", "inputSchema": {"type": "object"}}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home with two servers."""
    servers: dict[str, Any] = {"till": teller(tmp_path, more=[COIN]), "other": faulty()}
    (tmp_path / "trunkline.toml").write_text(tomlkit.dumps({"servers": servers}))
    return {**os.environ, "HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path / "t")}


def changes(env: dict[str, str], *words: str) -> Done:
    return run("tools", "--changes", *words, env=env)


def test_what_a_server_changed_since_it_was_first_seen_is_shown(env: dict[str, str]) -> None:
    first = changes(env)
    teller(Path(env["HOME"]), more=[COIN | {"description": "Toss two coins."}])
    table = changes(env)
    told = json.loads(changes(env, "--format", "json").stdout)["changes"]
    compact = changes(env, "--format", "compact", "--search", "COIN").stdout
    elsewhere = changes(env, "--format", "compact", "--server", "other")

    assert (first.returncode, first.stdout) == (0, "")
    assert "No changes" in first.stderr
    assert table.stdout.split("\n")[0].split() == ["TIME", "SERVER", "TOOL", "WHAT", "CHANGED"]
    assert table.stdout.split("\n")[1].split()[1:] == ["till", "toss_coin", "description"]
    assert [(one["server"], one["tool"], one["what"]) for one in told] == [("till", "toss_coin", ["description"])]
    assert told[0]["before"] != told[0]["after"]
    assert datetime.fromisoformat(told[0]["when"]).tzinfo is not None
    assert compact == f"{told[0]['when']} till toss_coin description\n"
    assert (elsewhere.returncode, elsewhere.stdout) == (0, "")


def test_a_server_that_is_not_there_is_wrong_use(env: dict[str, str]) -> None:
    done = changes(env, "--server", "nobody")

    assert done.returncode == 2
    assert "There are: till, other." in done.stderr
