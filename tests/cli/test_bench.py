"""`trunkline bench search`, as a stranger uses it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import run
from tests.cli.test_commands import home
from tests.harness import TRUNKLINE

__all__ = ["home"]

TOOLS = [
    {"key": "mail/send", "server": "mail", "name": "send_email", "description": "Send a message to people."},
    {"key": "files/write", "server": "files", "name": "write_file", "description": "Write text to a file."},
]
QUERIES = [{"id": "q1", "query": "write a file"}, {"id": 2, "query": "email a message"}]


def write(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    return ("--tools", write(tmp_path / "t.jsonl", TOOLS), "--queries", write(tmp_path / "q.jsonl", QUERIES))


def test_every_query_gets_a_line_with_its_tools_best_first(
    home: dict[str, str], files: tuple[str, ...], tmp_path: Path
) -> None:
    done = run("bench", "search", *files, "--strategy", "bm25", "--out", str(tmp_path / "out.jsonl"), env=home)

    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert (done.returncode, done.stdout) == (0, "")
    assert [line["id"] for line in lines] == ["q1", 2]
    assert [line["ranked"][0] for line in lines] == ["files/write", "mail/send"]
    assert all(line["ms"] >= 0 and len(line["scores"]) == len(line["ranked"]) for line in lines)
    assert "2 queries over 2 tools by bm25: p50 " in done.stderr


def test_a_dash_writes_to_standard_output_and_the_limit_counts(home: dict[str, str], files: tuple[str, ...]) -> None:
    done = run("bench", "search", *files, "--strategy", "bm25", "--limit", "1", "--out", "-", env=home)

    assert [len(json.loads(line)["ranked"]) for line in done.stdout.splitlines()] == [1, 1]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"--tools": "nowhere.jsonl"}, "nowhere.jsonl cannot be read"),
        ({"--strategy": "magic"}, "no search strategy 'magic'"),
        ({"--limit": "0"}, "`limit` is 0"),
        ({"--out": "nowhere/out.jsonl"}, "out.jsonl cannot be written"),
        ({"--out": "."}, "cannot be written"),
    ],
)
def test_a_wrong_option_is_named(
    home: dict[str, str], files: tuple[str, ...], changed: dict[str, str], says: str
) -> None:
    options = dict(zip(files[::2], files[1::2], strict=True)) | {"--strategy": "bm25", "--out": "-"} | changed

    done = run("bench", "search", *(word for pair in options.items() for word in pair), env=home)

    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "unexpected" not in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"id": 1, "query": "a"}\n\n{"id": 2, "query"\n', "Line 3 of"),
        ('{"id": 1, "query": "a"}\n[]\n', "is no JSON object"),
        ('{"id": 1}\n', "has no `query`"),
        ('{"query": "a"}\n', "has no `id`"),
        ("\n", "is empty"),
    ],
)
def test_a_broken_line_is_named_and_nothing_is_written(
    home: dict[str, str], files: tuple[str, ...], tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "q.jsonl").write_text(text)

    done = run("bench", "search", *files, "--strategy", "bm25", "--out", str(tmp_path / "out.jsonl"), env=home)

    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_the_queries_are_not_written_over(home: dict[str, str], files: tuple[str, ...], tmp_path: Path) -> None:
    done = run("bench", "search", *files, "--strategy", "bm25", "--out", str(tmp_path / "q.jsonl"), env=home)

    assert done.returncode == 2
    assert len((tmp_path / "q.jsonl").read_text().splitlines()) == 2


def test_at_a_terminal_it_says_how_far_it_is_and_ctrl_c_leaves_nothing_behind(
    home: dict[str, str], tmp_path: Path
) -> None:
    many = [{"id": number, "query": f"write file {number} and send a message"} for number in range(200_000)]
    words = ["bench", "search", "--strategy", "bm25", "--out", str(tmp_path / "out.jsonl")]
    words += ["--tools", write(tmp_path / "t.jsonl", TOOLS), "--queries", write(tmp_path / "q.jsonl", many)]
    (tmp_path / "scratch").mkdir()
    terminal, inside = pty.openpty()
    env = {**home, "TMPDIR": str(tmp_path / "scratch")}

    with subprocess.Popen([TRUNKLINE, *words], env=env, stderr=inside, stdout=subprocess.DEVNULL) as process:
        os.close(inside)
        said = b""
        while b"of 200000 queries" not in said:
            said += os.read(terminal, 1000)
        process.send_signal(signal.SIGINT)
        code = process.wait(30)
    os.close(terminal)

    assert code == 130
    assert not (tmp_path / "out.jsonl").exists()
    assert list((tmp_path / "scratch").iterdir()) == []
