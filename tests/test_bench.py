"""What `make bench` runs comes to its end; here in its smallest form, for figures one needs the whole."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.harness import Start, preloaded

ROOT = Path(__file__).parents[1]
(NAMES,) = re.findall(r"^BENCHES \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)


def arguments(name: str, folder: Path) -> list[str]:
    """A few tools and queries for what ranks them; nothing for what makes its own."""
    if name != "finders":
        return []
    files: list[str] = []
    for kind, lines in (("tools", 40), ("queries", 4)):
        text = (ROOT / "bench" / "data" / f"{kind}.jsonl").read_text().splitlines(keepends=True)
        (folder / kind).write_text("".join(text[:lines]))
        files.append(str(folder / kind))
    return files


@pytest.fixture(scope="module")
def start() -> Generator[Start]:
    """Starts benches without the second in which most of them import the same."""
    with preloaded("trunkline", "trunkline.gateway.serve", "trunkline.hub") as start:
        yield start


@pytest.mark.parametrize("name", NAMES.split())
def test_a_bench_runs_to_its_end(name: str, tmp_path: Path, start: Start) -> None:
    bench = start(str(ROOT / "bench" / f"{name}.py"), *arguments(name, tmp_path))
    command = [bench["command"], *bench["args"]]

    ran = subprocess.run(command, env={**os.environ, "BENCH": "smallest"}, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "failed:" not in ran.stdout
    assert re.search(r"\d", ran.stdout)
