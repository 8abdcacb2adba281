"""`trunkline audit`: lines for people and for programs, those that come, and whether any was changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.inside import Done, run
from tests.telemetry.test_audit import chain
from trunkline.cli import audit as command
from trunkline.telemetry.audit_chain import files_in

HOSTILE = "/\x1b[2J\r\n99 forged"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The audit of this home: what two people changed, and what was refused."""
    audit = chain(tmp_path / "home" / "audit", 3)
    for user in ("ana", "bob"):
        audit.add("change", {"path": HOSTILE}, who={"user": user})
    audit.refused({"path": "/api/v1/users", "status": 403}, {"user": "bob"})
    audit.close()
    return audit.folder


def audit(home: Path, *words: str) -> Done:
    env = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "TRUNKLINE_HOME": str(home / "home")}
    return run("audit", *words, env=env)


def test_an_audit_that_nobody_changed_is_told_with_its_last_hash_and_another_is_not(
    tmp_path: Path, folder: Path
) -> None:
    whole = audit(tmp_path, "verify")
    told = json.loads(audit(tmp_path, "verify", "--format", "json").stdout)
    kept = audit(tmp_path, "verify", "--expect", told["hash"])
    other = audit(tmp_path, "verify", "--expect", "0" * 64)
    (path,) = files_in(folder)
    path.write_bytes(path.read_bytes().replace(b"users/1", b"users/7"))
    changed = audit(tmp_path, "verify")

    assert (whole.returncode, kept.returncode, other.returncode, changed.returncode) == (0, 0, 1, 1)
    assert told["hash"] in whole.stdout
    assert "line number 4 was changed" in changed.stdout


def test_all_lines_are_given_out_as_they_stand_in_the_files(tmp_path: Path, folder: Path) -> None:
    given = audit(tmp_path, "export")

    assert given.stdout.splitlines() == [text for path in files_in(folder) for text in path.read_text().splitlines()]


def test_the_last_lines_are_shown_by_kind_and_by_user_and_cannot_be_forged(tmp_path: Path, folder: Path) -> None:
    two = audit(tmp_path, "-n", "2").stdout.splitlines()
    refused = audit(tmp_path, "--kind", "refusal").stdout.splitlines()
    hers = audit(tmp_path, "--user", "ana").stdout.splitlines()

    assert [line.split()[2:4] for line in two] == [["refusal", "bob"], ["stop", "-"]]
    assert [line.split()[2:4] for line in refused] == [["refusal", "bob"]]
    assert [line.split()[2:4] for line in hers] == [["change", "ana"]]
    assert hers[0].isprintable()


def test_lines_that_come_are_told_once_each_until_nobody_wants_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, pauses = chain(tmp_path / "home" / "audit", 2), list[float]()

    def pass_time(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise KeyboardInterrupt
        if len(pauses) != 2:
            written.add("change", {"path": f"/later/{len(pauses)}"})

    monkeypatch.setattr(command.time, "sleep", pass_time)
    told = audit(tmp_path, "-n", "1", "--follow").stdout
    written.close()

    assert [line.rpartition("=")[2] for line in told.splitlines()] == ["/api/v1/users/1", "/later/1", "/later/3"]


def test_where_there_is_none_it_says_how_to_have_one(tmp_path: Path) -> None:
    done = audit(tmp_path, "verify")

    assert done.returncode not in (0, None)
    assert "[audit] `enabled = true`" in done.stderr
