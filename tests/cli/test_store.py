"""`trunkline store`, as an operator uses it."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import Done, announced_gateway, run, typed
from tests.cli.terminal import at_terminal
from trunkline.storage.schema import NEWEST

CANARY = "canary-7d2e"
SECRET = "open-sesame-41"


class Home:
    """A home folder, and commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith("TRUNKLINE")}
        self.env = {**env, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "c"), "TRUNKLINE_HOME": str(folder)}

    def run(self, *words: str, stdin: str = "", **env: str) -> Done:
        return run(*words, env={**self.env, **env}, stdin=stdin)

    def said(self, *words: str, **env: str) -> Any:
        done = self.run(*words, "--format", "json", **env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def fill(self) -> None:
        """Put something of each kind into the store."""
        self.said("user", "add", "ana", "--role", "admin")
        self.said("key", "create", "--user", "ana")
        header = f"k: {CANARY}"
        self.said("add", "--scope", "user", "--user", "ana", "--header", header, "git", "http://127.0.0.1:1/mcp")
        self.said("thread", "set", "t", "--user", "ana", "--timeout", "3")


@pytest.fixture
def one(tmp_path: Path) -> Home:
    return Home(tmp_path / "one")


@pytest.fixture
def other(tmp_path: Path) -> Home:
    return Home(tmp_path / "other")


def test_status_says_what_there_is_and_makes_nothing(one: Home) -> None:
    before = one.said("store", "status")
    words = one.run("store", "status")

    assert before == {"store": str(one.folder / "trunkline.db"), "engine": "sqlite", "exists": False}
    assert "It is made when somebody is added" in words.stderr
    assert not (one.folder / "trunkline.db").exists()

    one.fill()

    after = one.said("store", "status")
    assert {name: after[name] for name in ("users", "keys", "servers", "threads")} == dict.fromkeys(
        ("users", "keys", "servers", "threads"), 1
    )
    assert (after["exists"], after["schema"], after["newest"]) == (True, NEWEST, NEWEST)
    assert "1 user, 1 key, 1 server, 1 thread" in one.run("store", "status").stdout


def test_an_old_schema_is_told_and_migrated_and_a_newer_one_is_left_alone(one: Home) -> None:
    assert one.said("store", "migrate") == {"store": str(one.folder / "trunkline.db"), "from": 0, "to": NEWEST}
    assert "has the newest schema" in one.run("store", "migrate").stderr
    with sqlite3.connect(one.folder / "trunkline.db") as database:
        later = (
            "spent",
            "data_keys",
            "credentials",
            "sign_ins",
            "leases",
            "console_sessions",
            "programs",
            "calls",
            "used",
            "agreed_servers",
            "pins",
            "waiting",
        )
        for table in later:
            database.execute(f"DROP TABLE {table}")
        database.execute("DELETE FROM schema_version WHERE version > 1")
    database.close()

    assert f"schema 1, and {NEWEST} is the newest: trunkline store migrate" in one.run("store", "status").stdout
    assert f"went from schema 1 to {NEWEST}" in one.run("store", "migrate").stderr
    with sqlite3.connect(one.folder / "trunkline.db") as database:
        database.execute("INSERT INTO schema_version VALUES (999)")
    database.close()
    assert one.said("store", "status")["schema"] == 999
    for words in (("store", "migrate"), ("user", "list"), ("store", "export")):
        refused = one.run(*words)
        assert (refused.returncode, "written by a newer Trunkline" in refused.stderr) == (1, True)


def test_a_store_goes_out_and_into_another_and_comes_out_the_same(one: Home, other: Home) -> None:
    one.fill()
    file = one.folder / "all.json"

    exported = one.run("store", "export", str(file))
    brought = other.run("store", "import", str(file), "--yes")
    again = other.said("store", "import", str(file), "--yes")

    assert "keys and secrets are not in it" in exported.stderr
    assert oct(file.stat().st_mode)[-3:] == "600"
    assert brought.stdout == "+ user ana\n+ server ana/git\n+ thread ana/t\n"
    assert "3 to add, 0 to change, 0 the same." in brought.stderr
    assert again == {"added": [], "changed": [], "same": 3, "left": []}
    assert other.run("store", "export").stdout == file.read_text()
    assert other.said("key", "list") == {"keys": []}
    assert CANARY not in file.read_text()


def test_keys_and_secrets_come_along_with_a_passphrase_alone(one: Home, other: Home) -> None:
    one.fill()
    file = one.folder / "all.json"
    (other.folder / "seal.key").write_bytes((one.folder / "seal.key").read_bytes())
    assert one.said("store", "export", str(file), "--passphrase", TRUNKLINE_STORE_PASSPHRASE=SECRET)["secrets"]

    without = other.run("store", "import", str(file), "--yes")
    wrong = other.run("store", "import", str(file), "--yes", TRUNKLINE_STORE_PASSPHRASE="no")
    nobody = other.run("store", "import", str(file), "--yes", "--passphrase")
    right = other.run("store", "import", str(file), "--yes", TRUNKLINE_STORE_PASSPHRASE=SECRET)

    assert "say --passphrase to bring them" in without.stderr
    assert (wrong.returncode, "does not open" in wrong.stderr) == (2, True)
    assert (nobody.returncode, "Set TRUNKLINE_STORE_PASSPHRASE." in nobody.stderr) == (2, True)
    assert "With 1 key." in right.stderr
    assert len(other.said("key", "list")["keys"]) == 1
    assert other.said("user", "show", "ana")["servers"][0]["headers"] == ["k"]
    assert CANARY not in file.read_text()
    assert SECRET not in file.read_text()


def test_a_passphrase_is_typed_unseen_and_twice(one: Home) -> None:
    one.fill()
    file = one.folder / "all.json"

    code, screen = at_terminal(
        *("store", "export", str(file), "--passphrase"),
        env=one.env,
        answers={"not shown": SECRET, "Once more": SECRET},
    )

    assert code == 0, screen
    assert SECRET not in screen
    assert json.loads(file.read_text())["sealed"]


def test_a_person_sees_what_would_come_and_may_say_no(one: Home, other: Home) -> None:
    one.fill()
    file = str(one.folder / "all.json")
    one.run("store", "export", file)

    unasked = other.run("store", "import", file)
    no = typed("store", "import", file, env=other.env, answers="n\n")
    empty = other.said("user", "list")
    yes = typed("store", "import", file, env=other.env, answers="y\n")

    assert (unasked.returncode, "Say --yes" in unasked.stderr, unasked.stdout.count("+ ")) == (2, True, 3)
    assert (no.returncode, "Nothing was changed." in no.stderr, empty) == (1, True, {"users": []})
    assert (yes.returncode, "3 added" in yes.stderr) == (0, True)


def test_commands_in_a_document_are_brought_in_only_when_that_is_said(one: Home, other: Home) -> None:
    one.fill()
    document = json.loads(one.run("store", "export").stdout)
    document["servers"].append({"name": "local", "content": {"command": "true"}})
    text = json.dumps(document)

    refused = other.run("store", "import", "-", "--yes", stdin=text)
    taken = other.run("store", "import", "-", "--yes", "--allow-commands", stdin=text)

    assert (refused.returncode, "say --allow-commands" in refused.stderr) == (2, True)
    assert taken.returncode == 0, taken.stderr
    assert other.said("store", "status")["servers"] == 2


def test_a_copy_is_a_store_of_its_own(one: Home) -> None:
    one.fill()
    copy = one.folder / "copy.db"

    assert one.said("store", "backup", str(copy)) == {"backup": str(copy)}
    one.said("user", "remove", "ana")

    assert one.said("user", "list", "--store", f"sqlite:///{copy}")["users"][0]["name"] == "ana"
    assert one.said("user", "list", TRUNKLINE_STORE_URL=f"sqlite:///{copy}")["users"][0]["name"] == "ana"
    assert oct(copy.stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("store",), 2, "required: ACTION"),
        (("store", "export"), 2, "There is no store at"),
        (("store", "backup", "x.db"), 2, "There is no store at"),
        (("store", "import", "nothing.json"), 2, "cannot be read: No such file"),
        (("store", "import", "-", "--yes"), 2, "no document of a store"),
        (("store", "status", "--store", "mysql://host/x"), 2, "Write `sqlite:///path/of/a/file`"),
        (("store", "status", "--store", "postgresql://127.0.0.1:1/x"), 1, "postgresql://127.0.0.1:1/x"),
        (("up", "--store", "mysql://host/x", "--port", "0"), 2, "no database that we know"),
        (("store", "export", "file", "--passphrase", "words"), 2, "unrecognized arguments"),
    ],
)
def test_wrong_use_is_explained(one: Home, words: tuple[str, ...], code: int, complaint: str) -> None:
    done = one.run(*words)

    assert complaint in done.stderr
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_file_that_is_there_is_not_written_over(one: Home) -> None:
    one.fill()
    (one.folder / "mine").write_text("mine")

    for action in ("export", "backup"):
        done = one.run("store", action, "mine")
        assert (done.returncode, "mine is there already. Name a new file." in done.stderr) == (2, True)
    assert (one.folder / "mine").read_text() == "mine"
    assert "cannot be written" in one.run("store", "backup", "no/such/folder").stderr


def test_a_running_gateway_goes_on_while_its_store_is_copied_and_filled(one: Home, other: Home) -> None:
    other.fill()
    text = other.run("store", "export").stdout
    source = one.folder / "trunkline.toml"
    source.write_text("[gateway]\nport = 0\n")
    with announced_gateway(source, one.env) as opened:
        assert one.run("store", "import", "-", "--yes", stdin=text).returncode == 0
        assert one.run("store", "backup", "copy.db").returncode == 0
        until = time.monotonic() + 10
        while not opened.hub.relay.tenancy.people.anybody and time.monotonic() < until:
            time.sleep(0.02)
        assert one.said("user", "list")["users"][0]["name"] == "ana"
