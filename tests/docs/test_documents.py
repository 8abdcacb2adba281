"""The documents say what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import trunkline
from tests.docs.reference import FILE, written
from tests.harness import TRUNKLINE
from trunkline.config.reading import parse

ROOT = Path(__file__).parents[2]


def test_the_reference_lists_every_option() -> None:
    assert FILE.read_text(encoding="utf-8") == written(), "run `python -m tests.docs.reference`"


def test_the_readme_shows_a_configuration_that_works() -> None:
    import tomllib

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)

    configs = [parse(tomllib.loads(text), env={"DOCS_TOKEN": "secret"}) for text in found]

    assert [set(config.servers) for config in configs] == [{"time", "docs"}, set(), {"search-1", "search-2"}]
    assert [set(config.profiles) for config in configs] == [set(), {"careful"}, set()]


def test_every_command_of_the_readme_exists() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    help_text = subprocess.run([TRUNKLINE, "--help"], capture_output=True, text=True, check=True).stdout

    for command in set(re.findall(r"\.venv/bin/trunkline ([\w-]+)", readme)):
        assert re.search(rf"^    {command}\s", help_text, re.MULTILINE), command


def test_links_between_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        prose = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", prose):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_public_name_is_documented() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

    for name in trunkline.__all__:
        assert getattr(trunkline, name)
        assert name.startswith("_") or re.search(rf"\b{name}\b", pages), f"{name} is on no page"


@pytest.mark.parametrize("example", sorted((ROOT / "docs" / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_every_example_runs_and_stands_on_its_page(example: Path) -> None:
    page = ROOT / "docs" / f"{example.stem}.md"

    assert example.read_text(encoding="utf-8").strip() in page.read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
