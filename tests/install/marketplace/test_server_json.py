"""The built-in catalogue is complete, exact and harmless to read."""

from __future__ import annotations

import pytest

from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.install import Installer
from trunkline.install.marketplace.server_json import get_all_well_known_servers, get_well_known_server

ENTRIES = get_all_well_known_servers()


def test_the_ten_servers_that_everybody_names_are_there() -> None:
    ten = {"filesystem", "github", "postgres", "sqlite", "brave-search", "puppeteer", "git", "memory", "slack"}

    assert ten | {"google-drive"} <= {entry.id for entry in ENTRIES}
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES) >= 30
    assert get_well_known_server("brave") == get_well_known_server("brave-search")
    assert get_well_known_server("nothing") is None


def test_nobody_can_change_the_catalogue_for_others() -> None:
    mine = list(get_all_well_known_servers())
    mine.clear()

    assert get_all_well_known_servers() == ENTRIES


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_an_entry_can_be_installed_in_an_exact_version(entry: RegistryEntry) -> None:
    installer = Installer(entry)
    answers = {one.name: one.default or "x" for one in installer.questions() if one.required}

    spec = installer.spec(answers)

    assert spec.url.startswith("https://") or f"@{entry.version}" in " ".join(spec.args)
    assert entry.description
    assert not entry.description.endswith(".")
    assert entry.categories
    assert entry.tags
    assert entry.tools
    assert entry.repository
    assert entry.verified or entry.notes, "what is not verified says why"


def test_what_each_of_the_often_wrong_ones_needs() -> None:
    slack, postgres, drive = map(get_well_known_server, ("slack", "postgres", "google-drive"))
    assert slack is not None
    assert postgres is not None
    assert drive is not None

    assert slack.required_env_vars == ("SLACK_BOT_TOKEN", "SLACK_TEAM_ID")
    assert postgres.env_args == ("DATABASE_URL",)
    assert any("argument" in note for note in postgres.notes)
    assert (postgres.tools, drive.tools) == (("query",), ("search",))
