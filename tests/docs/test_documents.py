"""The documents say what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import trunkline
from tests.docs.index import INDEX, llms_text, sections
from tests.docs.reference import PAGES, ROOT
from tests.harness import TRUNKLINE
from trunkline.config.reading import parse

DOCS = sorted((ROOT / "docs").rglob("*.md"))
SOURCE = ROOT / "src" / "trunkline"


@pytest.mark.parametrize("page", PAGES)
def test_what_comes_from_the_source_is_up_to_date(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == PAGES[page](), "run `python -m tests.docs.reference`"


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


def test_the_index_has_every_page_once() -> None:
    links = [address for section in sections(INDEX.read_text(encoding="utf-8")) for _, address, _ in section.links]

    pages = sorted(address for address in links if address.startswith("docs/"))

    assert pages == sorted(str(page.relative_to(ROOT)) for page in DOCS if page != INDEX)


def test_models_are_given_every_link_of_the_index() -> None:
    index = [link[:2] for section in sections(INDEX.read_text(encoding="utf-8")) for link in section.links]

    title, summary, *rest = llms_text().split("\n\n")

    assert title.startswith("# ")
    assert summary.startswith("> ")
    assert all(part.startswith(("## ", "- ")) for part in rest)
    assert sorted(re.findall(r"^- \[(.+)\]\((\S+)\)", "\n".join(rest), re.MULTILINE)) == sorted(index)


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_to_headings(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", _prose(page)):
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        assert not anchor or anchor in _anchors(there), target


@pytest.mark.parametrize("page", [page for page in DOCS if page.parent.name != "decisions"], ids=lambda page: page.stem)
def test_what_pages_name_of_the_code_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    for name in set(re.findall(r"\btrunkline(?:\.\w+)+", text)):
        assert _is_there(name), name
    for module, names in re.findall(r"^ *from (trunkline[\w.]*) import (\([^)]+\)|.+)$", text, re.MULTILINE):
        assert all(hasattr(import_module(module), name) for name in re.findall(r"\w+", names)), module
    for path in set(re.findall(r"(?<![\w/.])(?:[a-z_]+/)+\w+\.py\b", text)):
        below = path.partition("/")[0]
        assert (SOURCE / path).exists() or (ROOT / path).exists() or not (SOURCE / below).exists(), path
    for module in set(re.findall(r"python -m (tests[\w.]+)", text)):
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), module
    assert set(re.findall(r"`(test_\w+)`", text)) <= _tests()


def test_the_page_on_a_calls_life_has_every_stage_in_its_order() -> None:
    joined = (SOURCE / "relay.py").read_text(encoding="utf-8").partition("self.stages:")[2].partition("join(")[0]
    page = (ROOT / "docs" / "life-of-a-call.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in (SOURCE / "call" / "stages").glob("*.py")]
    stages = {name for source in sources for name in re.findall(r"^class (\w+Stage)\b", source, re.MULTILINE)}

    told = re.findall(r"^- `(\w+Stage)`", page, re.MULTILINE)

    assert set(told) == stages
    named = re.findall(r"\w+Stage(?=\()", joined)
    assert [name for name in told if name in named] == named


def test_every_public_name_is_documented() -> None:
    by_hand = [page for page in (ROOT / "docs").glob("*.md") if page.name != "reference.md"]
    pages = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *by_hand])

    for name in trunkline.__all__:
        assert getattr(trunkline, name)
        assert name.startswith("_") or re.search(rf"\b{name}\b", pages), f"{name} is on no page"


def test_each_word_has_one_line_in_its_place_and_lives_somewhere() -> None:
    text = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines()[3:] if line]

    found = [re.fullmatch(r"- \*\*([\w -]+)\*\*: .+\. \(`([\w/.]+)`\)", line) for line in lines]
    words = [match[1] for match in found if match]

    assert len(words) == len(lines)
    assert words == sorted(set(words), key=str.casefold)
    assert [match[2] for match in found if match and not (SOURCE / match[2]).exists()] == []


@pytest.mark.parametrize("example", sorted((ROOT / "docs" / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_every_example_runs_and_stands_on_its_page(example: Path) -> None:
    page = ROOT / "docs" / f"{example.stem}.md"

    assert example.read_text(encoding="utf-8").strip() in page.read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def _prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub makes addresses of them."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    texts = (re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def _is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    *parts, last = name.split(".")[1:]
    place = SOURCE.joinpath(*parts)
    if last in ("toml", "yaml", "fish", "db") or (place / last).is_dir() or (place / f"{last}.py").exists():
        return True
    is_module = place.is_dir() or place.with_suffix(".py").exists()
    return is_module and hasattr(import_module(".".join(("trunkline", *parts))), last)


@cache
def _tests() -> set[str]:
    modules = (ROOT / "tests").rglob("test_*.py")
    return {name for module in modules for name in re.findall(r"def (test_\w+)", module.read_text(encoding="utf-8"))}
