"""`trunkline user`, `key`, `thread` and `add --scope`, beside a gateway that runs and where none does."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import Done, announced_gateway, run, typed
from trunkline.cli import main
from trunkline.gateway.serve import Gateway

Json = dict[str, Any]
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
CONFIG = """
[gateway]
port = 0
users = {root = "0123456789abcdef-of-root"}

[limits]
servers = 2
servers_per_thread = 3

[servers.one]
url = "http://127.0.0.1:1/mcp"
enabled = false

[profiles.careful]
"""


@dataclass(frozen=True)
class Desk:
    """Commands with a home of their own, and the gateway that runs there, if one does."""

    env: dict[str, str]
    gateway: Gateway | None

    def run(self, *words: str) -> Done:
        return run(*words, "--config", self.env["HOME"] + "/trunkline.toml", env=self.env)

    def said(self, *words: str) -> Json:
        """What a command prints for programs."""
        done = self.run(*words, "--format", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(params=["gateway", "store"], scope="module")
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    home = tmp_path_factory.mktemp(request.param)
    file = home / "trunkline.toml"
    file.write_text(CONFIG)
    env = {name: value for name, value in os.environ.items() if not name.startswith("TRUNKLINE")}
    env |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "c"), "TRUNKLINE_HOME": str(home / "t")}
    if request.param == "store":
        yield Desk(env, None)
        return
    with announced_gateway(file, env) as opened:
        # Whoever went past the gateway here would find no store.
        yield Desk({**env, "TRUNKLINE_STORE_URL": NOWHERE}, opened)


@pytest.fixture(scope="module")
def wrong(desk: Desk) -> None:
    """Somebody of whom wrong things are said."""
    desk.run("user", "add", "wrong")


def test_who_only_looks_makes_no_store_and_is_told_how_to_begin(desk: Desk) -> None:
    done = [desk.run("user", "list"), desk.run("key", "list"), desk.run("thread", "list")]

    assert [one.returncode for one in done] == [0, 0, 0]
    assert "There are no users, so nobody needs a key. Add one: trunkline user add" in done[0].stderr
    assert "There are no keys." in done[1].stderr
    assert "No threads were configured" in done[2].stderr
    assert desk.run("user", "show", "ana").returncode == desk.run("key", "create", "--user", "ana").returncode == 1
    assert not list(Path(desk.env["TRUNKLINE_HOME"]).glob("*.db"))


def test_a_user_is_added_listed_shown_changed_and_removed(desk: Desk) -> None:
    added = desk.run("user", "add", "ana", "--role", "reader", "--limit", "calls_per_hour=100")
    second = desk.said("user", "add", "bo@b.example")

    assert "Make a key: trunkline key create --config" in added.stderr
    assert "so every request to the gateway wants a key" in added.stderr
    assert (second["role"], second["limits"], second["version"]) == ("member", {}, 1)
    assert desk.run("user", "list", "--format", "compact").stdout == "ana\nbo@b.example\n"
    assert "calls_per_hour=100" in desk.run("user", "list").stdout.splitlines()[1]

    changed = desk.said(
        "user", "set", "ana", "--role", "member", "--limit", "tokens_per_day=5", "--limit", "calls_per_hour=default"
    )
    assert (changed["role"], changed["limits"], changed["version"]) == ("member", {"tokens_per_day": 5.0}, 2)
    assert desk.said("user", "show", "ana")["keys"] == []
    assert "0 keys" in desk.run("user", "show", "ana").stdout

    assert desk.said("user", "remove", "bo@b.example") == {"removed": "bo@b.example"}
    assert [user["name"] for user in desk.said("user", "list")["users"]] == ["ana"]


def test_a_key_is_shown_once_and_lets_its_user_in_until_it_is_revoked(desk: Desk) -> None:
    desk.run("user", "add", "keeper")
    made = desk.said("key", "create", "--user", "keeper")
    narrow = desk.run(
        *("key", "create", "--user", "keeper", "--name", "laptop", "--expires", "30d", "--profile", "careful"),
        *("--servers", "one", "--tools", "one__get_*, one__list_*", "--read-only"),
    )

    assert set(made) == {"id", "key"}
    assert narrow.stdout.startswith("tl_")
    assert len(narrow.stdout.splitlines()) == 1
    assert "This is shown once." in narrow.stderr
    listed = {key["id"]: key for key in desk.said("key", "list", "--user", "keeper")["keys"]}
    assert len(listed) == 2
    assert listed[made["id"]]["expires"] is None
    kept = listed[narrow.stdout[3:27]]
    assert (kept["name"], kept["servers"], kept["read_only"]) == ("laptop", ["one"], True)
    assert (kept["profile"], kept["tools"]) == ("careful", ["one__get_*", "one__list_*"])
    table = desk.run("key", "list", "--user", "keeper").stdout
    assert "profile careful; servers one; tools one__get_*,one__list_*; only read" in table
    assert "all that its user may" in table
    assert made["key"].partition(".")[2] not in table

    assert desk.said("key", "revoke", made["id"]) == {"revoked": made["id"]}
    assert desk.run("key", "revoke", narrow.stdout.strip()).returncode == 0
    assert desk.said("key", "list", "--user", "keeper") == {"keys": []}
    assert "There is no key" in desk.run("key", "revoke", made["id"]).stderr


def test_a_thread_is_configured_bit_by_bit_copied_and_given_back(desk: Desk) -> None:
    desk.run("user", "add", "talker")
    whose = ("--user", "talker")
    desk.run("thread", "set", "c/42", *whose, "--servers", "one,two", "--disable", "two", "--timeout", "3.5")
    after = desk.said(
        *("thread", "set", "c/42", *whose, "--tools", "one__*", "--enable", "two", "--strategy", "bm25"),
        *("--no-search", "--no-programs", "--limit", "calls_per_hour=9", "--expose", "code"),
    )

    assert (after["servers"], after["tools"], after["disabled"], after["version"]) == (
        ["one", "two"],
        ["one__*"],
        [],
        2,
    )
    assert after["overrides"] == {
        "search_strategy": "bm25",
        "disable_tool_search": True,
        "disable_programmatic_calling": True,
        "timeout": 3.5,
        "limits": {"calls_per_hour": 9.0},
        "expose": "code",
    }
    copy = desk.said("thread", "clone", "c/42", "c/43", *whose)
    assert (copy["id"], copy["overrides"]) == ("c/43", after["overrides"])
    back = desk.said(
        *("thread", "set", "c/42", *whose, "--servers", "*", "--tools", "*", "--search", "--programs"),
        *("--strategy", "default", "--timeout", "0", "--limit", "calls_per_hour=default", "--expose", "default"),
    )
    assert (back["servers"], back["tools"], back["overrides"]["search_strategy"]) == (None, [], "")
    assert back["overrides"]["expose"] == ""
    listed = desk.run("thread", "list", *whose).stdout
    assert "c/42  as its user" in listed
    assert "no search; no programs; timeout: 3.5 s; limits: calls_per_hour=9" in listed
    assert "    servers: one, two\n" in desk.run("thread", "show", "c/43", *whose).stdout
    assert desk.said("thread", "list") == {"threads": []}  # of callers without a key, who have their own
    assert desk.said("thread", "remove", "c/42", *whose) == {"removed": "c/42"}
    assert desk.run("thread", "list", *whose, "--format", "compact").stdout == "c/43\n"


def test_a_server_is_one_users_own_and_leaves_the_file_alone(desk: Desk) -> None:
    file = Path(desk.env["HOME"]) / "trunkline.toml"
    desk.run("user", "add", "owner")
    words = ("add", "git", "http://127.0.0.1:1/mcp", "--scope", "user", "--user", "owner", "--header", "k: canary-1")
    # What follows the name of a remote server is ours, --config behind it included.
    added = desk.run(*words)

    assert added.returncode == 0, added.stderr
    assert "Registered 'git' for owner." in added.stderr
    assert file.read_text() == CONFIG
    shown = desk.said("user", "show", "owner")["servers"]
    assert [(one["name"], one["user"], one["headers"]) for one in shown] == [("git", "owner", ["k"])]
    assert "There already is a server 'git'" in desk.run(*words).stderr
    assert desk.run(*words, "--force").returncode == 0
    assert desk.run("add", "b", "http://127.0.0.1:1/", "--scope", "user", "--user", "owner").returncode == 0
    third = desk.run("add", "c", "http://127.0.0.1:1/", "--scope", "user", "--user", "owner")
    assert "There are 2 servers already." in third.stderr
    taken = desk.run("add", "one", "http://127.0.0.1:1/", "--scope", "app")
    assert (taken.returncode, "in the configuration" in taken.stderr) == (2, True)
    removed = desk.run("remove", "git", "--scope", "user", "--user", "owner")
    assert removed.returncode == 0, removed.stderr
    assert [one["name"] for one in desk.said("user", "show", "owner")["servers"]] == ["b"]
    assert "There are: b." in desk.run("remove", "git", "--scope", "user", "--user", "owner").stderr


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("user", "add", "a/b"), 2, "cannot be a user's name"),
        (("user", "add", "wrong"), 2, "There already is a user 'wrong'"),
        (("user", "add", "x", "--role", "king"), 2, "invalid choice: 'king'"),
        (("user", "add", "x", "--limit", "calls_per_hour"), 2, "is no limit: write NAME=NUMBER"),
        (("user", "add", "x", "--limit", "naps=3"), 2, "There is no limit 'naps'. There are calls_per_minute"),
        (("user", "add", "x", "--limit", "calls_per_hour=-1"), 2, "must be 0 or more"),
        (("user", "set", "wrong"), 2, "Say --role or --limit."),
        (("user", "show", "nobody"), 1, "There is no user 'nobody'. See `trunkline user list"),
        (("user", "remove", "nobody"), 1, "There is no user 'nobody'"),
        (("key", "create"), 2, "required: --user"),
        (("key", "create", "--user", "nobody"), 1, "There is no user 'nobody'"),
        (("key", "create", "--user", "wrong", "--servers", "one,ones"), 2, "no server 'ones'. Did you mean 'one'?"),
        (("key", "create", "--user", "wrong", "--profile", "carefull"), 2, "no profile 'carefull'. Did you mean"),
        (("key", "create", "--user", "wrong", "--expires", "soon"), 2, "'soon' is no time. Write 30d"),
        (("key", "create", "--user", "wrong", "--expires", "2001-01-01"), 2, "Choose a time to come"),
        (("key", "create", "--user", "wrong", "--name", "\udcff"), 2, "What was typed is no text"),
        (("user", "show", "\udcff"), 2, "What was typed is no text"),
        (("key", "list", "--user", "nobody"), 1, "There is no user 'nobody'"),
        (("thread", "show", "t", "--user", "wrong"), 1, "There is no thread 't'"),
        (("thread", "set", "t", "--user", "nobody", "--timeout", "3"), 1, "There is no user 'nobody'"),
        (("thread", "set", "t", "--user", "wrong"), 2, "Nothing is said of the thread"),
        (("thread", "set", "t", "--user", "wrong", "--timeout", "-3"), 2, "0 or more"),
        (("thread", "set", "t", "--user", "wrong", "--servers", "a,b,c,d"), 2, "may have 3 servers"),
        (("thread", "set", "t\x07", "--user", "wrong", "--timeout", "3"), 2, "printable"),
        (("thread", "remove", "t", "--user", "wrong"), 1, "There is no thread 't'"),
        (("add", "a", "http://127.0.0.1:1/", "--scope", "user"), 2, "Say --user NAME"),
        (("add", "a", "http://127.0.0.1:1/", "--scope", "app", "--user", "wrong"), 2, "is everybody's"),
        (("add", "a", "http://127.0.0.1:1/", "--user", "wrong"), 2, "Say --scope user"),
        (("add", "a", "http://127.0.0.1:1/", "--scope", "user", "--user", "nobody"), 1, "There is no user 'nobody'"),
        (("add", "a", "some-server", "--scope", "user", "--user", "wrong"), 2, "add --scope … a some-server …"),
    ],
)
def test_wrong_use_is_explained_the_same_both_ways(
    desk: Desk, wrong: None, words: tuple[str, ...], code: int, complaint: str
) -> None:
    done = desk.run(*words)

    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_users_of_the_file_have_threads_and_servers_too(desk: Desk) -> None:
    assert desk.said("thread", "set", "t", "--user", "root", "--timeout", "3")["user"] == "root"
    assert desk.run("add", "own", "http://127.0.0.1:1/", "--scope", "user", "--user", "root").returncode == 0


def test_the_person_at_the_terminal_is_asked_before_somebody_is_removed(desk: Desk) -> None:
    desk.run("user", "add", "gone")
    words = ("user", "remove", "gone", "--config", desk.env["HOME"] + "/trunkline.toml")

    kept = typed(*words, env=desk.env, answers="n\n")
    removed = typed(*words, env=desk.env, answers="y\n")

    assert (kept.returncode, "Nobody was removed." in kept.stderr) == (1, True)
    assert (removed.returncode, "Removed 'gone'." in removed.stderr) == (0, True)


def test_a_store_that_is_named_is_used_whatever_runs(desk: Desk, tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path}/other.db")

    assert desk.said("user", "add", "elsewhere", *store)["name"] == "elsewhere"
    assert [user["name"] for user in desk.said("user", "list", *store)["users"]] == ["elsewhere"]
    assert "elsewhere" not in desk.run("user", "list").stdout


def test_a_gateway_knows_at_once_what_was_done_through_it(desk: Desk) -> None:
    if desk.gateway is None:
        pytest.skip("none runs")
    desk.run("user", "add", "quick")

    assert desk.gateway.hub.relay.tenancy.people.anybody


def test_a_hint_repeats_the_configuration_behind_both_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_typed", ("", " --config x.toml"))

    assert main.as_typed("See `trunkline user list`.") == "See `trunkline user list --config x.toml`."
    assert main.as_typed("See `trunkline list`.") == "See `trunkline list --config x.toml`."
