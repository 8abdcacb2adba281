"""The command itself: its questions, its progress, its end."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.inside import run
from tests.doctor.scene import GOOD, Machine
from tests.harness import TRUNKLINE, faulty
from trunkline.cli.main import main
from trunkline.clients.client import Around
from trunkline.doctor.diagnosis import Case, diagnose
from trunkline.doctor.finding import CODES

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"


def test_every_code_has_its_section_and_every_section_its_code() -> None:
    sections = dict(re.findall(r"^### (TL\d+)\n\n\*\*(.+?)\.\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE))

    assert sections == CODES
    assert len(re.findall(r"^### ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) == len(CODES)


def test_every_section_says_what_to_do() -> None:
    for section in re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        assert "*What to do.*" in section, section[:20]


def test_every_code_is_found_by_some_test() -> None:
    tests = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))

    assert [code for code in CODES if f'"{code}"' not in tests] == []


def test_all_is_well_where_all_is_well(machine: Machine) -> None:
    machine.configure(GOOD)

    code = main(["doctor"])
    out, err = machine.capture.readouterr()

    assert (code, err.strip()) == (0, "All is well.")
    assert out.startswith("✓ it works, ")


def test_people_read_what_was_seen_what_to_do_and_where_more_is_said(machine: Machine) -> None:
    machine.configure({"command": "npxx"})

    code = main(["doctor"])
    out, err = machine.capture.readouterr()

    assert code == 1
    for words in ("✗ TL202 The command was not found (server it)", "Seen: ", "Do:   ", "More: docs/doctor.md#tl202"):
        assert words in out
    assert "1 thing is wrong." in err


def test_the_hurried_read_one_line_each(machine: Machine) -> None:
    machine.configure({"command": "npxx"})

    assert main(["doctor", "--format", "compact"]) == 1
    assert machine.capture.readouterr().out == "TL202 error it\n"


@pytest.mark.parametrize("words", [("--timeout", "0"), ("--timeout", "x"), ("--fix",)])
def test_wrong_use_is_told_from_something_wrong(words: tuple[str, ...], machine: Machine) -> None:
    machine.configure(GOOD)

    done = run("doctor", *words, env=dict(os.environ))

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_clock_from_before_our_time_is_wrong(machine: Machine) -> None:
    machine.configure(GOOD)
    around = Around(machine.folder, machine.folder, dict(os.environ), "linux")

    told = asyncio.run(diagnose(Case(machine.file, around, now=86400.0), lambda _: None))

    assert [one.code for one in told.findings] == ["TL316"]


class Terminal:
    """A terminal with the doctor on it."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self.mine, its = pty.openpty()
        self.process = subprocess.Popen(
            [TRUNKLINE, "doctor", *words], stdin=its, stdout=its, stderr=its, cwd=machine.folder, start_new_session=True
        )
        os.close(its)
        self.text = ""

    def read_until(self, words: str) -> str:
        """Everything up to these words."""
        while words not in self.text:
            piece = self._piece()
            assert piece, f"{words!r} did not come: {self.text!r}"
            self.text += piece
        return self.text

    def write(self, words: str) -> None:
        os.write(self.mine, words.encode())

    def end(self) -> tuple[int, str]:
        """The exit code, and all that was written."""
        while piece := self._piece():
            self.text += piece
        code = self.process.wait(20)
        os.close(self.mine)
        return code, self.text

    def _piece(self) -> str:
        try:
            return os.read(self.mine, 4096).decode(errors="replace")
        except OSError:
            return ""


def test_a_fix_is_asked_for_and_a_no_changes_nothing(machine: Machine) -> None:
    machine.configure(GOOD)
    machine.home.mkdir(mode=0o700)
    for name in ("seal.key", "secrets.lock"):
        (machine.home / name).write_bytes(b"k" * 32)
        (machine.home / name).chmod(0o644)

    terminal = Terminal(machine, "--fix")
    terminal.read_until("seal.key the mode 600? [y/N]")
    terminal.write("n\n")
    terminal.read_until("secrets.lock the mode 600? [y/N]")
    terminal.write("y\n")
    code, text = terminal.end()

    assert code == 1
    assert "gave " in text
    assert (machine.home / "seal.key").stat().st_mode & 0o777 == 0o644
    assert (machine.home / "secrets.lock").stat().st_mode & 0o777 == 0o600


def test_progress_is_shown_on_a_terminal_and_ctrl_c_ends_everything(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "log"
    slow = faulty("--start", "hang", "--log", str(log), start_timeout=300)
    machine.configure(servers={"slow": slow, "good": GOOD})

    terminal = Terminal(machine, "--timeout", "300")
    terminal.read_until("Examining 1 of 2 servers: slow")
    started = time.monotonic()
    while not (log.exists() and len(log.read_text().split()) > 1) and time.monotonic() - started < 30:
        pass  # it may be seen to start before it has written that it runs
    pid = int(log.read_text().split()[1])
    started = time.monotonic()
    os.killpg(terminal.process.pid, signal.SIGINT)
    code, text = terminal.end()

    assert code == 130, text
    assert time.monotonic() - started < 60
    assert "Traceback" not in text
    assert text.rstrip().endswith("\x1b[K")
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
