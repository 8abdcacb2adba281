"""The command in this process: much faster than one of its own, where nobody has to sit at a terminal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from trunkline.cli.main import main


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Inside:
    """Runs commands with an environment and a current folder of their own."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._monkeypatch, self._capsys = monkeypatch, capsys
        for name in list(os.environ):
            if name.endswith(("_TOKEN", "_KEY", "_URL", "_PATH", "_HOST")) or name.startswith("TRUNKLINE"):
                monkeypatch.delenv(name)
        self.set(HOME=str(home), XDG_CONFIG_HOME=str(home / "c"), TRUNKLINE_HOME=str(home / "t"))
        monkeypatch.chdir(home)

    def set(self, **env: str) -> None:
        """Set variables."""
        for name, value in env.items():
            self._monkeypatch.setenv(name, value)

    def run(self, *words: str) -> Done:
        """Run one command to its end."""
        self._capsys.readouterr()
        try:
            code = main([*words])
        except SystemExit as ended:  # so argparse complains
            code = ended.code if isinstance(ended.code, int) else 1
        said = self._capsys.readouterr()
        return Done(code, said.out, said.err)
