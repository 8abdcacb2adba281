"""Entries are checked when they are made, and nothing of them can be changed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from trunkline.errors import ConfigError
from trunkline.install.marketplace.entry import RegistryEntry


def test_an_entry_needs_no_more_than_an_id() -> None:
    entry = RegistryEntry("weather")

    assert (entry.name, entry.description, entry.transports) == ("weather", "", ())


def test_how_an_entry_is_reached_is_told_by_what_it_says() -> None:
    assert RegistryEntry("a", command="node").transports == ("stdio",)
    assert RegistryEntry("a", url="https://h.example/mcp").transports == ("http",)
    assert RegistryEntry("a", transports=("streamable-http", "sse")).transports == ("http", "sse")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"id": ""}, "cannot be the id"),
        ({"id": "../evil"}, "cannot be the id"),
        ({"id": "a b"}, "cannot be the id"),
        ({"id": 7}, "must be a text"),
        ({"name": "\x1b[2Jgone"}, "control character"),
        ({"description": "turned \u202e around"}, "control character"),
        ({"description": None}, "must be a text"),
        ({"description": "x" * 5000}, "more than 4000"),
        ({"homepage": "javascript:alert(1)"}, "not an address of the web"),
        ({"repository": "file:///etc/passwd"}, "not an address of the web"),
        ({"tags": "one"}, "list of texts"),
        ({"tags": [1]}, "must be a text"),
        ({"tools": ["t"] * 501}, "more than 500"),
        ({"transports": ("websocket",)}, "no transport 'websocket'"),
        ({"downloads": -1}, "whole number"),
        ({"stars": True}, "whole number"),
        ({"verified": "yes"}, "true or false"),
        ({"status": "gone"}, "must be one of"),
        ({"metadata": {"a": object()}}, "not JSON"),
    ],
)
def test_a_wrong_entry_is_refused_with_the_field(wrong: dict[str, Any], complaint: str) -> None:
    said: dict[str, Any] = {"id": "weather"} | wrong

    with pytest.raises(ConfigError, match=complaint):
        RegistryEntry(**said)


def test_nothing_of_an_entry_can_be_changed_by_whoever_made_or_got_it() -> None:
    tags, metadata = ["one"], {"deep": {"list": [1]}}
    entry = RegistryEntry("weather", tags=tags, metadata=metadata)

    tags.append("two")
    metadata["deep"]["list"].append(2)

    assert entry.tags == ("one",)
    assert entry.metadata["deep"]["list"] == (1,)
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        entry.metadata["deep"]["new"] = 1


def test_an_entry_for_programs_is_json_of_what_is_known() -> None:
    entry = RegistryEntry("weather", tags=("a",), metadata={"k": [1]}, verified=True)

    assert json.loads(json.dumps(entry.described())) == {
        "id": "weather",
        "name": "weather",
        "status": "active",
        "source": "custom",
        "tags": ["a"],
        "verified": True,
        "metadata": {"k": [1]},
    }
