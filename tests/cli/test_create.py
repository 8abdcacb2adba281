"""`trunkline create-server`, as a stranger uses it: what is written, what is refused, and what is left alone."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

from tests.cli.inside import Inside
from tests.cli.terminal import at_terminal


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """An empty home, and nobody to ask."""
    return Inside(tmp_path, monkeypatch)


def functions(file: Path) -> list[str]:
    """The tools of a module: its functions with a decorator."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]


def everything(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ("--tools", "readData,writeData"),
        ("--tools", "readData", "--tools", "writeData"),
        ("--tools", " readData , ,writeData,", "--tools", "readData"),
    ],
    ids=["by a comma", "repeated", "with blanks"],
)
def test_tools_are_named_by_commas_or_one_by_one(words: tuple[str, ...], cli: Inside) -> None:
    done = cli.run("create-server", "my-server", *words)

    assert done.returncode == 0, done.stderr
    assert functions(cli.home / "my-server/src/my_server.py") == ["readData", "writeData"]


def test_names_of_tools_that_were_changed_are_told(cli: Inside) -> None:
    done = cli.run("create-server", "my-server", "--tools", "get-it,list,a b,plain")

    assert "The function of tool 'get-it' is called get_it." in done.stderr
    assert "The function of tool 'list' is called list_." in done.stderr
    assert "Tool 'a b' is called a_b: not every client takes" in done.stderr
    assert "plain" not in done.stderr.partition("Created")[0]


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "..", "class", "json", "pytest"])
def test_a_name_never_leads_out_of_the_folder_nor_hides_a_module(name: str, cli: Inside) -> None:
    inner = cli.home / "inner"
    inner.mkdir()

    done = cli.run("create-server", name, "--output", str(inner), "--force", "--yes")

    assert (done.returncode, f"cannot be called {name!r}" in done.stderr) == (2, True)
    assert list(cli.home.rglob("*")) == [inner]


@pytest.mark.parametrize(
    ("template", "take"), [("python", "take basic"), ("typescript", "take basic"), ("java", "basic, http, agent")]
)
def test_templates_of_other_projects_are_answered_with_one_of_ours(template: str, take: str, cli: Inside) -> None:
    done = cli.run("create-server", "my-server", "--template", template)

    assert (done.returncode, take in done.stderr) == (2, True), done.stderr
    assert not (cli.home / "my-server").exists()


def test_the_lines_of_the_original_work(cli: Inside) -> None:
    first = cli.run("create-server", "my-data-server")
    second = cli.run("create-server", "my-server", "--template", "basic", "--output", "./servers")
    third = cli.run("create-server", "my-server", "--tools", "readData,writeData,listItems", "-d", "Keeps data.")

    assert [first.returncode, second.returncode, third.returncode] == [0, 0, 0]
    assert (cli.home / "servers/my-server/src/my_server.py").exists()
    assert functions(cli.home / "my-server/src/my_server.py") == ["readData", "writeData", "listItems"]
    assert '"Keeps data."' in (cli.home / "my-server/src/my_server.py").read_text()


def test_a_folder_above_is_named_as_it_is(cli: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    (cli.home / "inner").mkdir()
    monkeypatch.chdir(cli.home / "inner")

    done = cli.run("create-server", "shop", "--output", "..", "--format", "compact")

    assert (done.returncode, done.stdout) == (0, f"{cli.home / 'shop'}\n")


def test_programs_are_told_in_json_and_scripts_in_a_line(cli: Inside) -> None:
    told = json.loads(cli.run("create-server", "one", "--tools", "a-b", "--format", "json").stdout)
    line = cli.run("create-server", "two", "--format", "compact")

    assert (told["created"], told["tools"], len(told["changes"]), len(told["next"])) == ("one", ["a-b"], 1, 3)
    assert sorted(told["files"]) == sorted(everything(cli.home / "one"))
    assert (line.stdout, line.stderr) == (f"{cli.home / 'two'}\n", "")


def test_every_hint_names_what_was_made(cli: Inside) -> None:
    (cli.home / "mine.toml").write_text("")

    said = cli.run("create-server", "shop", "--template", "http", "--port", "9001", "--config", "mine.toml").stderr

    steps = [line.strip() for line in said.partition("Next steps")[2].splitlines() if line.startswith("  ")]
    assert "index.js" not in said
    assert steps[1].endswith(f"{cli.home}/shop/src/shop.py")
    assert steps[2].endswith("trunkline add --config mine.toml shop http://127.0.0.1:9001/mcp")
    assert steps[3].endswith("trunkline exec --config mine.toml shop hello text=hello")


def test_a_server_that_is_configured_already_is_replaced_by_the_line_that_says_so(cli: Inside) -> None:
    cli.run("add", "shop", "old-shop")

    said = cli.run("create-server", "shop").stderr

    assert "in the place of the one of that name" in said
    assert "trunkline add --force shop " in said


def test_a_folder_that_is_not_empty_is_left_alone_and_an_empty_one_is_taken(cli: Inside) -> None:
    (cli.home / "full").mkdir()
    (cli.home / "full" / "mine").write_text("mine")
    (cli.home / "empty").mkdir()
    (cli.home / "file").write_text("mine")

    full, empty = cli.run("create-server", "full"), cli.run("create-server", "empty")
    file = cli.run("create-server", "file", "--force", "--yes")

    assert (full.returncode, "--force" in full.stderr, everything(cli.home / "full")) == (2, True, {"mine": "mine"})
    assert empty.returncode == 0
    assert (file.returncode, (cli.home / "file").read_text()) == (2, "mine")


def test_force_deletes_nothing_and_overwrites_only_after_a_yes(cli: Inside) -> None:
    cli.run("create-server", "shop")
    fresh = everything(cli.home / "shop")
    (cli.home / "shop" / "src" / "shop.py").write_text("mine")
    (cli.home / "shop" / "src" / "other.py").write_text("mine too")

    unasked = cli.run("create-server", "shop", "--force")
    kept = (cli.home / "shop/src/shop.py").read_text()
    agreed = cli.run("create-server", "shop", "--force", "--yes")
    again = cli.run("create-server", "shop", "--force")

    assert (unasked.returncode, "src/shop.py" in unasked.stderr, "--yes" in unasked.stderr) == (2, True, True)
    assert "README.md" not in unasked.stderr  # it would stay as it is
    assert kept == "mine"
    assert agreed.returncode == 0
    assert everything(cli.home / "shop") == {**fresh, "src/other.py": "mine too"}
    assert again.returncode == 0  # nothing would be lost, so nothing is asked


@pytest.mark.parametrize(("answer", "code", "kept"), [("n", 1, True), ("", 1, True), ("y", 0, False)])
def test_a_person_is_asked_before_a_file_is_overwritten(answer: str, code: int, kept: bool, cli: Inside) -> None:
    cli.run("create-server", "shop")
    (cli.home / "shop" / "README.md").write_text("mine")

    ended, screen = at_terminal(
        "create-server", "shop", "--force", env=dict(os.environ), answers={"[y/N]": answer}
    )  # fmt: skip

    assert ended == code, screen
    assert "Overwrite README.md in" in screen
    assert ((cli.home / "shop" / "README.md").read_text() == "mine") is kept


def test_links_that_lead_elsewhere_are_never_written_through(cli: Inside) -> None:
    (cli.home / "secret").write_text("mine")
    (cli.home / "elsewhere").mkdir()
    for name in ("one", "two"):
        (cli.home / name).mkdir()
    (cli.home / "one" / "README.md").symlink_to(cli.home / "secret")
    (cli.home / "two" / "src").symlink_to(cli.home / "elsewhere")

    one = cli.run("create-server", "one", "--force", "--yes")
    two = cli.run("create-server", "two", "--force", "--yes")

    assert (one.returncode, (cli.home / "secret").read_text()) == (0, "mine")
    assert (cli.home / "one" / "README.md").read_text().startswith("# one")
    assert (two.returncode, list((cli.home / "elsewhere").iterdir())) == (2, [])
    assert [file.name for file in (cli.home / "two").iterdir()] == ["src"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tools", ","), "names no tool"),
        (("--port", "9000"), "has no port"),
        (("--template", "http", "--port", "0"), "There is no port 0"),
        (("--output", "file"), "cannot be"),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_is_written(words: tuple[str, ...], said: str, cli: Inside) -> None:
    (cli.home / "file").write_text("")

    done = cli.run("create-server", "shop", *words)

    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert [path.name for path in cli.home.iterdir()] == ["file"]
