"""`trunkline discover`, as a stranger uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from tests.call.stages.till import teller
from tests.cli.inside import Inside
from tests.cli.stand_in import stand_in
from tests.harness import faulty
from trunkline.cli.discover import LastLook, News, news_of
from trunkline.control.change import ToolChange

COIN = {"name": "toss_coin", "description": "Toss a coin.", "inputSchema": {"type": "object"}}
DICE = {"name": "roll_dice", "description": "Roll the dice.", "inputSchema": {"type": "object"}}


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    return Inside(tmp_path, monkeypatch)


def configure(cli: Inside, **servers: Any) -> None:
    (cli.home / "trunkline.toml").write_text(tomlkit.dumps({"servers": servers}))


def discovered(cli: Inside, *words: str) -> dict[str, Any]:
    done = cli.run("discover", "--json", *words)
    assert done.returncode == 0, done.stderr
    return {server["name"]: server for server in json.loads(done.stdout)["servers"]}


def news(cli: Inside, *words: str) -> dict[str, Any]:
    till = discovered(cli, *words)["till"]
    return {tool["name"]: tool["news"]["what"] for tool in till["tools"] if "news" in tool} | dict.fromkeys(
        till["gone"], "gone"
    )


def test_everything_that_the_servers_offer_is_shown(cli: Inside) -> None:
    configure(cli, till=teller(cli.home, more=[COIN]), notes=stand_in("notes"))

    table = cli.run("discover")
    told = discovered(cli)
    lines = cli.run("discover", "--format", "compact").stdout.splitlines()
    alone = discovered(cli, "--server", "notes")

    assert table.returncode == 0, table.stderr
    assert "◐ till [degraded] 15 tools, 1 resource, for the first time\n    Server 'till' refused" in table.stdout
    assert "● notes [ready] 5 tools, 1 template, 1 prompt, for the first time\n" in table.stdout
    assert "    toss_coin            Toss a coin.\n" in table.stdout
    assert "    template note://{title}  A note as a resource.\n" in table.stdout
    assert "    prompt tidy_up  Ask for the notes to be put in order.\n" in table.stdout
    assert "2 of 2 servers, 20 tools: nothing new." in table.stderr
    assert [tool["name"] for tool in told["till"]["tools"]][-1] == "toss_coin"
    assert (len(told["till"]["resources"]), told["notes"]["prompts"][0]["name"]) == (1, "tidy_up")
    assert "till toss_coin " in lines
    assert list(alone) == ["notes"]


def test_what_is_new_since_the_last_time_is_told_once(cli: Inside) -> None:
    configure(cli, till=teller(cli.home, more=[COIN]))
    first = news(cli)
    teller(cli.home, more=[COIN | {"description": "Toss two coins."}, DICE])
    table = cli.run("discover")
    again = news(cli)
    teller(cli.home, more=[DICE])
    gone = news(cli)

    assert (first, again, gone) == ({}, {}, {"toss_coin": "gone"})
    assert "  ~ toss_coin            [changed: description] Toss two coins.\n" in table.stdout
    assert "  + roll_dice            [new] Roll the dice.\n" in table.stdout
    assert "1 new, 1 changed." in table.stderr


def test_what_another_command_saw_first_is_told_all_the_same(cli: Inside) -> None:
    configure(cli, till=teller(cli.home, more=[COIN]))
    cli.run("discover")
    teller(cli.home, more=[COIN, DICE])

    cli.run("tools")

    assert news(cli) == {"roll_dice": "new"}
    assert "roll_dice added" in cli.run("tools", "--changes", "--format", "compact").stdout


def test_what_words_say_is_shown_with_the_words_and_is_what_annotate_infers(cli: Inside) -> None:
    configure(cli, till=teller(cli.home, tools={"delete_account": {"destructive_hint": False}}))

    table = cli.run("discover", "--infer-annotations")
    tools = discovered(cli, "--infer-annotations")["till"]["tools"]
    inferred = json.loads(cli.run("annotate", "--infer", "--format", "json").stdout)["tools"]
    delete = next(tool["inferred"] for tool in tools if tool["name"] == "delete_account")

    assert {tool["name"]: tool["inferred"]["annotations"] for tool in tools} == {
        tool["tool"]: tool["annotations"] for tool in inferred
    }
    assert (delete["safety"], delete["annotations"]["destructive_hint"]) == ("dangerous", True)
    assert "The name says 'delete'." in delete["evidence"]
    assert "      dangerous [DESTRUCTIVE | requires confirmation | simple complexity]: The name says 'delete'." in (
        table.stdout
    )
    assert " only read, " in table.stderr
    assert "inferred" not in discovered(cli)["till"]["tools"][0]


def test_a_server_that_cannot_be_reached_is_named_with_the_reason(cli: Inside) -> None:
    configure(cli, till=teller(cli.home), bad=faulty("--start", "exit"), off=faulty(enabled=False))

    some = cli.run("discover")
    none = cli.run("discover", "--server", "bad")
    switched_off = cli.run("discover", "--server", "off")

    assert (some.returncode, none.returncode) == (0, 3)
    assert "✗ bad [unreachable]\n    Server 'bad' exited with code 3." in some.stdout
    assert "1 of 2 servers, " in some.stderr
    assert (switched_off.returncode, "is switched off" in switched_off.stderr) == (2, True)


def test_without_a_configuration_there_is_nothing_yet_and_a_hint(cli: Inside) -> None:
    nothing = cli.run("discover")
    told = cli.run("discover", "--json")
    named = cli.run("discover", "--server", "github")
    unknown = cli.run("discover", "--server", "nobody")

    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "Begin with `trunkline add NAME COMMAND`" in nothing.stderr
    assert json.loads(told.stdout) == {"servers": []}
    assert (named.returncode, "Begin with `trunkline install github`." in named.stderr) == (0, True)
    assert (unknown.returncode, "Begin with `trunkline add NAME COMMAND`" in unknown.stderr) == (0, True)


def test_what_a_server_says_cannot_write_over_the_screen(cli: Inside) -> None:
    bad = {"name": "x\x1b[2J", "description": "\x1b[31mred", "inputSchema": {"type": "object"}}
    configure(cli, till=teller(cli.home, more=[bad]))

    for words in ((), ("--infer-annotations",), ("--format", "compact")):
        assert "\x1b" not in cli.run("discover", *words).stdout


def test_a_broken_note_of_the_last_time_counts_as_none(tmp_path: Path) -> None:
    looks = LastLook(tmp_path)
    for text in ("", "[1]", '{"a": "x"}', "\xff"):
        (tmp_path / "discovered.json").write_bytes(text.encode("latin-1"))
        assert looks.read() == {}

    looks.write({"a": 1.0})
    looks.write({"b": 2.0})

    assert looks.read() == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    ("whats", "expected"),
    [
        ([("added",)], News("new")),
        ([("description",), ("added",)], News("new")),
        ([("removed",)], News("gone")),
        ([("removed",), ("title",)], News("gone")),
        ([("title",), ("description", "title")], News("changed", ("description", "title"))),
        ([("restored",), ("removed",)], News("back")),
        ([("restored", "meta"), ("removed",)], News("back", ("meta",))),
    ],
)
def test_several_changes_of_a_tool_are_one_piece_of_news(whats: list[tuple[str, ...]], expected: News) -> None:
    newest_first = [ToolChange(9.0 - at, "s", "t", what, "", "") for at, what in enumerate(whats)]

    assert news_of(newest_first) == {"t": expected}
