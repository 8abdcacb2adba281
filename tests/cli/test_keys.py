"""`trunkline keys`, as an operator uses it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.cli.inside import announced_gateway
from tests.cli.terminal import at_terminal
from tests.cli.test_store import CANARY, Home
from trunkline.config.secrets import Secrets


@pytest.fixture
def one(tmp_path: Path) -> Home:
    return Home(tmp_path / "one")


def test_status_says_where_the_key_is_and_what_is_sealed_and_makes_nothing(one: Home) -> None:
    empty = one.said("keys", "status")

    assert (empty["master"], empty["credentials"], empty["secrets"]) == (str(one.folder / "seal.key"), 0, 0)
    assert os.listdir(one.folder) == []
    one.fill()
    one.run("secret", "set", "a", stdin="v")

    assert "1 credential in the store, 1 data key" in one.run("keys", "status").stdout
    assert "1 secret in" in one.run("keys", "status").stdout
    assert one.said("store", "status")["credentials"] == 1
    assert one.said("keys", "status", TRUNKLINE_STORE_KEY="", TRUNKLINE_MASTER_KEY="")["master"] == empty["master"]


def test_keys_are_turned_and_nothing_is_shown_or_lost(one: Home) -> None:
    one.fill()
    one.run("secret", "set", "a", stdin=CANARY)
    before = {name: (one.folder / name).read_bytes() for name in ("seal.key", "secrets.json")}

    told = [one.run("keys", "rotate"), one.run("keys", "rotate", "--master"), one.run("keys", "rotate", "--debug")]

    assert [done.returncode for done in told] == [0, 0, 0]
    assert all("ealed 1 credential and 1 secret with new keys." in done.stderr for done in told)
    assert "backups from before it open with the old one alone" in told[1].stderr
    assert not [done for done in told if CANARY in done.stdout + done.stderr]
    assert all((one.folder / name).read_bytes() != content for name, content in before.items())
    assert stat.S_IMODE((one.folder / "seal.key").stat().st_mode) == 0o600
    assert Secrets(one.folder, keyring=lambda: None, env={}).get("a") == CANARY
    assert one.said("keys", "rotate") == {
        "credentials": 1,
        "secrets": 1,
        "refused": [],
        "resumed": False,
        "master": False,
        "give": [],
    }


def test_a_key_of_the_operators_own_is_changed_in_two_steps(one: Home) -> None:
    old, new = {"TRUNKLINE_MASTER_KEY": "ab" * 32}, {"TRUNKLINE_MASTER_KEY": "cd" * 32}
    one.said("user", "add", "ana", **old)
    one.said("add", "--scope", "app", "--header", f"k: {CANARY}", "git", "http://127.0.0.1:1/mcp", **old)
    refused = one.run("keys", "rotate", "--master", **old)

    assert (refused.returncode, "yours to make, as it comes from TRUNKLINE_MASTER_KEY" in refused.stderr) == (2, True)
    given = one.run("keys", "rotate", "--master", TRUNKLINE_NEW_MASTER_KEY="cd" * 32, **old)
    assert "Now give the new one in TRUNKLINE_MASTER_KEY" in given.stderr
    assert one.said("user", "list", **old) == one.said("user", "list", **new)
    assert one.run("keys", "rotate", **new).returncode == 0

    late = one.run("user", "list", **old)
    assert (late.returncode, "made with another key than TRUNKLINE_MASTER_KEY" in late.stderr) == (2, True)
    assert not (one.folder / "seal.key").exists()


def test_a_gateway_goes_on_while_the_keys_are_turned(one: Home) -> None:
    one.fill()
    source = one.folder / "trunkline.toml"
    source.write_text("[gateway]\nport = 0\n")
    with announced_gateway(source, one.env):
        for number in range(3):
            assert one.run("keys", "rotate", "--master").returncode == 0
            words = ("--scope", "app", "--header", f"k: {CANARY}", f"s{number}", "http://127.0.0.1:1/mcp")
            one.said("add", *words)
            assert one.run("user", "show", "ana").returncode == 0

    assert one.said("keys", "rotate")["credentials"] == 4


def test_a_record_that_does_not_open_is_named_and_the_command_says_that_it_failed(one: Home) -> None:
    one.run("secret", "set", "a", stdin=CANARY)
    one.run("secret", "set", "b", stdin=CANARY)
    document = json.loads((one.folder / "secrets.json").read_text())
    document["secrets"]["b"] = document["secrets"]["a"]
    (one.folder / "secrets.json").write_text(json.dumps(document))

    done = one.run("keys", "rotate")

    assert (done.returncode, "Not opened, and left as it was: secret b." in done.stderr) == (1, True)


@pytest.mark.slow
def test_somebody_who_watches_sees_how_far_it_is(one: Home) -> None:
    one.fill()

    code, screen = at_terminal("keys", "rotate", env=one.env, answers={})

    assert (code, "1 of 1 credentials" in screen) == (0, True)
