"""The documents say what the code does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import trunkline
from tests.docs.reference import FILE, written
from tests.harness import TRUNKLINE
from trunkline.reading import parse

ROOT = Path(__file__).parents[2]


def test_the_reference_lists_every_option() -> None:
    assert FILE.read_text(encoding="utf-8") == written(), "run `python -m tests.docs.reference`"


def test_the_readme_shows_a_configuration_that_works() -> None:
    import tomllib

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)

    config = parse(tomllib.loads(found[0]), env={"DOCS_TOKEN": "secret"})

    assert set(config.servers) == {"time", "docs"}


def test_every_command_of_the_readme_exists() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    help_text = subprocess.run([TRUNKLINE, "--help"], capture_output=True, text=True, check=True).stdout

    for command in set(re.findall(r"\.venv/bin/trunkline (\w+)", readme)):
        assert f"    {command} " in help_text


def test_links_between_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_public_names_are_these() -> None:
    public = {name for name in trunkline.__all__ if not name.startswith("_")}

    assert public == {"Config", "Hub", "Scope", "ServerSpec", "ToolResult", "TrunklineError", "open_hub"}
    assert all(getattr(trunkline, name) for name in public)
