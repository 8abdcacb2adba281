"""A tool's category is told by words, not by letters that happen to stand in them."""

from __future__ import annotations

import pytest

from trunkline.tools.categories import infer_category


@pytest.mark.parametrize(
    ("name", "description", "category"),
    [
        ("git_commit", "", "version-control"),
        ("create_branch", "Create a branch in a repository", "version-control"),
        ("read_file", "Read a file", "file-system"),
        ("http_request", "", "api"),
        ("query_data", "", "data"),
        ("login", "", "authentication"),
        ("deploy_app", "", "deployment"),
        ("list_tables", "List the tables of a database", "database"),
        ("web_search", "Search the web", "search"),
        ("send_email", "Send an email", "communication"),
        ("getIncident", "", "monitoring"),
        ("add", "Adds two numbers", "general"),
        ("", "", "general"),
    ],
)
def test_a_tool_is_put_where_most_of_its_words_belong(name: str, description: str, category: str) -> None:
    assert infer_category(name, description) == category


@pytest.mark.parametrize(
    ("name", "description", "wrong"),
    [
        ("legitimate", "A legitimate digital thing", "version-control"),
        ("rapid", "Goes rapidly", "api"),
        ("update_metadata", "", "data"),
        ("build_author", "", "authentication"),
        ("spread_word", "", "file-system"),
        ("profile", "", "file-system"),
    ],
)
def test_letters_inside_a_word_say_nothing(name: str, description: str, wrong: str) -> None:
    assert infer_category(name, description) != wrong
