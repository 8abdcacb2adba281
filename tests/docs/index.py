"""The index of the documentation: its sections, its list of decisions, and the same for models, `llms.txt`."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "README.md"
MARK = "<!-- decisions, written by `python -m tests.docs.reference` -->\n"


@dataclass(frozen=True)
class Section:
    """A task, and the links to what helps with it."""

    title: str
    links: tuple[tuple[str, str, str], ...]
    """Title, address from the root of the repository, and a few words."""


def index_page() -> str:
    """The index, with every decision below its mark."""
    by_hand, mark, _ = INDEX.read_text(encoding="utf-8").partition(MARK)
    decisions = sorted((INDEX.parent / "decisions").glob("*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for page in decisions]
    links = [f"- [{title}](decisions/{page.name})" for title, page in zip(titles, decisions, strict=True)]
    return by_hand + mark + "\n" + "\n".join(links) + "\n"


def llms_text() -> str:
    """The index in the form of llmstxt.org; why things are as they are may be left out by those short of room."""
    text = index_page()
    title, summary = text.split("\n\n")[:2]
    parts = [title, f"> {' '.join(summary.split())}"]
    optional: list[str] = []
    for section in sections(text):
        lines = {address: f"- [{name}]({address}){words}" for name, address, words in section.links}
        optional += [line for address, line in lines.items() if "/decisions/" in address]
        parts.append(f"## {section.title}")
        parts.append("\n".join(line for line in lines.values() if line not in optional))
    return "\n\n".join([*parts, "## Optional", "\n".join(optional)]) + "\n"


def sections(text: str) -> list[Section]:
    """The sections of the index, in their order."""
    found: list[Section] = []
    for part in text.split("\n## ")[1:]:
        links = re.findall(r"^- \[([^\]]+)\]\(([^)]+)\)(.*)$", part, re.MULTILINE)
        resolved = tuple((name, posixpath.normpath(f"docs/{target}"), words) for name, target, words in links)
        found.append(Section(part.partition("\n")[0], resolved))
    return found
