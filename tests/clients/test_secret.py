"""Secrets are found, moved, and never shown."""

from __future__ import annotations

from typing import Any

import pytest

from trunkline.clients.secret import hidden, is_private, is_secret, move, secrets_of, shown_command


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GITHUB_TOKEN", "x", True),
        ("OPENAI_API_KEY", "x", True),
        ("Authorization", "Bearer x", True),
        ("X-Api-Key", "x", True),
        ("DB_PASSWORD", "x", True),
        ("ANYTHING", "ghp_abcdef", True),
        ("ANYTHING", "sk-abcdef", True),
        ("PLACE", "postgres://ana:pw@host/db", True),
        ("DATABASE_URL", "postgres://host/db", True),
        ("GITHUB_TOKEN", "${env:GITHUB_TOKEN}", False),
        ("GITHUB_TOKEN", "", False),
        ("LOG_LEVEL", "debug", False),
        ("KEYBOARD", "qwerty", False),
        ("HOME", "/home/ana", False),
        ("REGION", "eu", False),
    ],
)
def test_a_secret_is_told_by_its_name_or_its_look(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


def test_secrets_are_moved_into_variables_and_equal_ones_share_theirs() -> None:
    specs: dict[str, dict[str, Any]] = {
        "one": {"command": "x", "env": {"TOKEN": "first", "LEVEL": "1"}},
        "two": {"command": "y", "env": {"TOKEN": "second"}},
        "three": {"command": "z", "env": {"TOKEN": "first"}},
        "web": {"url": "https://h", "headers": {"Authorization": "Bearer third", "X-Api-Key": "fourth"}},
    }

    made, moved = move(specs, into_variables=True)

    assert made["one"]["env"] == {"TOKEN": "${env:TOKEN}", "LEVEL": "1"}
    assert made["two"]["env"] == {"TOKEN": "${env:TWO_TOKEN}"}
    assert made["three"]["env"] == {"TOKEN": "${env:TOKEN}"}
    assert made["web"]["headers"] == {"Authorization": "Bearer ${env:WEB_TOKEN}", "X-Api-Key": "${env:WEB_X_API_KEY}"}
    assert [(one.server, one.name) for one in moved][:2] == [("one", "TOKEN"), ("two", "TWO_TOKEN")]
    assert not any(value in str(made) for value in ("first", "second", "third", "fourth"))
    assert specs["one"]["env"]["TOKEN"] == "first"
    assert all(secrets_of(spec) == [] for spec in made.values())


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"command": "npx", "args": ["-y", "a b"]}, "npx -y 'a b'"),
        ({"command": "x", "env": {"B": "secret", "A": "1"}}, "x (with A, B)"),
        ({"command": "x", "env": {"A": "p-${env:B}-${C:-d}"}}, "x (with A=${env:B}${C})"),
        ({"url": "https://h/mcp", "headers": {"X-Key": "secret"}}, "https://h/mcp (with X-Key)"),
        ({"command": "x", "cwd": "/w"}, "x (in /w)"),
        ({"command": "x", "args": ["--api-key", "abc", "--n", "1"]}, "x --api-key '***' --n 1"),
        ({"command": "x", "args": ["--token=abc", "--a=b"]}, "x '--token=***' --a=b"),
        ({"command": "x", "args": ["--header", "Authorization: Bearer abc"]}, "x --header 'Authorization: ***'"),
        ({"command": "x", "args": ["postgres://u:p@h/d"]}, "x 'postgres://***@h/d'"),
        ({"command": "x", "args": ["sk-abcdef"]}, "x '***'"),
        ({"url": "https://u:p@h/mcp?key=abc"}, "https://***@h/mcp"),
        ({"command": "a\x1b[2Jb\u202ec"}, "'a\\x1b[2Jb\\u202ec'"),
    ],
)
def test_a_command_is_shown_word_for_word_but_for_secrets(spec: dict[str, Any], shown: str) -> None:
    assert shown_command(spec) == shown


def test_what_others_should_not_read_is_private_wherever_it_stands() -> None:
    assert is_private({"command": "x", "args": ["--token", "abc"]})
    assert is_private({"url": "https://h/mcp?key=abc"})
    assert is_private({"command": "x", "env": {"TOKEN": "abc"}})
    assert not is_private({"command": "x", "args": ["-y", "thing"], "env": {"TOKEN": "${env:TOKEN}"}})


def test_secrets_of_a_document_are_hidden_in_any_spelling() -> None:
    document = {
        "models": [{"apiKey": 'quo"te-key'}],
        "servers": {"a": {"env": {"TOKEN": "tok-ümlaut"}, "headers": {"X-Any": "header-value"}}},
        "args": ["--password", "pass-word", "--key=key-value"],
        "pem": {"private_key": "-----BEGIN\nline-of-the-key\n"},
    }
    text = '"quo\\"te-key" tok-\\u00fcmlaut tok-ümlaut header-value pass-word key-value\n  line-of-the-key'

    assert hidden(text, [document]) == '"***" *** *** *** *** ***\n  ***'


def test_secrets_are_moved_to_our_own_and_never_in_the_place_of_another() -> None:
    specs: dict[str, dict[str, Any]] = {
        "one": {"command": "x", "env": {"TOKEN": "first"}},
        "web": {"url": "https://h", "headers": {"Authorization": "Bearer third"}},
    }

    made, moved = move(specs, into_variables=False, taken=["one.TOKEN"])

    assert made["one"]["env"] == {"TOKEN": "${secret:one.TOKEN-2}"}
    assert made["web"]["headers"] == {"Authorization": "Bearer ${secret:web.Authorization}"}
    assert [(one.name, one.value) for one in moved] == [("one.TOKEN-2", "first"), ("web.Authorization", "third")]
    assert "first" not in repr(moved)


@pytest.mark.parametrize(
    "line",
    [
        '    // "API_KEY": "tell-nobody-1"',
        "# api_key = tell-nobody-1",
        '  "note": "sk-tell-nobody-1"',
        '  "url": "https://me:tell-nobody-1@host/mcp"',
        '  "url": "https://host/mcp?key=tell-nobody-1"',
        '  "args": ["--header", "Authorization: Bearer tell-nobody-1"]',
        "  token: tell-nobody-1",
    ],
)
def test_what_looks_like_a_secret_is_hidden_wherever_it_stands(line: str) -> None:
    assert "tell-nobody-1" not in hidden(line, [])


@pytest.mark.parametrize(
    "line",
    [
        '      "Authorization": "Bearer ${TOKEN}"',
        '      "url": "http://127.0.0.1:7420/mcp"',
        'bearer_token_env_var = "TRUNKLINE_GATEWAY_TOKEN"',
        '"command": "npx",',
    ],
)
def test_what_only_names_a_secret_is_shown(line: str) -> None:
    assert hidden(line, []) == line
