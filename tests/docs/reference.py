"""Writes what of the documentation comes from the source: `python -m tests.docs.reference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs.commands import commands_page
from tests.docs.configuration import configuration_page
from tests.docs.index import index_page, llms_text
from tests.docs.names import names_page

ROOT = Path(__file__).parents[2]
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/configuration.md": configuration_page,
    "docs/commands.md": commands_page,
    "docs/reference.md": names_page,
    "docs/README.md": index_page,
    "llms.txt": llms_text,
}

if __name__ == "__main__":
    for page, text in PAGES.items():
        (ROOT / page).write_text(text(), encoding="utf-8")
