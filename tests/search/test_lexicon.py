"""What a query asks to be done, what a tool does, and whether the two suit each other."""

from __future__ import annotations

import pytest

from trunkline.search.lexicon import Action, agreement, asked_action, done_action, spelt_out


def asked(query: str) -> Action:
    return asked_action(query.split())[0]


@pytest.mark.parametrize(
    ("query", "action"),
    [
        ("delete the draft", Action.DELETE),
        ("get rid of old backups", Action.DELETE),
        ("throw these mails away", Action.DELETE),
        ("bring the fork up to date", Action.UPDATE),
        ("tick the groceries off", Action.UPDATE),
        ("tell ops that the disk is full", Action.SEND),
        ("let ops know about it", Action.SEND),
        ("warn me when the disk is full", Action.CREATE),
        ("open a support ticket", Action.CREATE),
        ("open pull request", Action.CREATE),
        ("open pull requests of the team", Action.READ | Action.CREATE),
        ("open a file", Action.READ | Action.CREATE),
        ("leave a remark on the page", Action.CREATE),
        ("give Ann access", Action.CREATE | Action.UPDATE),
        ("tell me the weather", Action.READ | Action.LIST | Action.SEARCH),
        ("give me the weather", Action.READ | Action.LIST | Action.SEARCH),
        ("our open invoices", Action.LIST | Action.SEARCH),
        ("docs for the react framework", Action.LIST | Action.SEARCH),
    ],
)
def test_what_is_asked_is_read_from_verbs_and_phrases(query: str, action: Action) -> None:
    assert asked(query) == action


@pytest.mark.parametrize(
    ("name", "description", "action"),
    [
        ("get_user", "Get a user.", Action.READ),
        ("get_users", "Get users.", Action.READ | Action.LIST),
        ("get_user_details", "Get a user.", Action.READ),
        ("get_channel_history", "Get messages.", Action.READ | Action.LIST),
        ("API-post-search", "Search by title", Action.SEARCH),
        ("API-post-page", "Create a page", Action.CREATE),
        ("post_message", "", Action.SEND | Action.CREATE),
    ],
)
def test_what_a_tool_does_is_read_from_its_name_and_description(name: str, description: str, action: Action) -> None:
    assert done_action(name, description) == action


def test_what_shows_does_not_suit_what_is_to_be_sent_and_nothing_stands_in_for_deleting() -> None:
    history = done_action("get_channel_history", "")

    assert agreement(asked("tell ops about it"), history) == -1.0
    assert agreement(asked("latest messages of ops"), history) >= 0.0
    assert agreement(asked("get rid of the channel"), history) < -1.0


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("open PRs of the repo", "open pull requests of the repository"),
        ("show budget.txt", "show  file "),
        ("a prompt", "a prompt"),
    ],
)
def test_a_model_reads_words_in_the_place_of_abbreviations_and_values(query: str, read: str) -> None:
    assert spelt_out(query) == read
