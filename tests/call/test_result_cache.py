"""Tools' answers are kept apart, and failures are not kept."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from trunkline.call.cache import CacheHit, CacheSet
from trunkline.call.result_cache import ToolResultCache, create_tool_result_cache, result_key
from trunkline.errors import ConfigError
from trunkline.tool import ToolResult

ARGS = {"id": 123}


def test_an_answer_is_kept_and_found_by_equal_arguments() -> None:
    cache = ToolResultCache()

    assert cache.cache_result("get_user", {"id": 123, "full": True}, {"name": "Alice"})
    assert cache.get_cached_result("get_user", {"full": True, "id": 123}) == {"name": "Alice"}
    assert cache.get_cached_result("get_user", b'{"full": true, "id": 123}') == {"name": "Alice"}
    assert cache.has_cached_result("get_user", {"full": True, "id": 123})
    assert not cache.has_cached_result("get_user", {"full": 1, "id": 123})
    assert cache.get_cached_result("get_user", {}, "nothing") == "nothing"


def test_one_tenant_never_sees_the_answer_of_another() -> None:
    cache = ToolResultCache()
    cache.cache_result("get_mail", {}, "for alice", server="mail", tenant="alice")

    assert cache.get_cached_result("get_mail", {}, server="mail", tenant="alice") == "for alice"
    assert cache.get_cached_result("get_mail", {}, server="mail", tenant="bob") is None
    assert cache.get_cached_result("get_mail", {}, server="mail") is None
    assert cache.get_cached_result("get_mail", {}, server="post", tenant="alice") is None
    assert not cache.has_cached_result("get_mail", {}, server="mail", tenant="bob")


def test_names_cannot_be_made_to_reach_into_each_other() -> None:
    names = ["", "a", "b", "a:b", ":", "a:", ":a", "a%3Ab", "%", "*", "?", "**"]
    keys = {result_key(tool, {}, server=server, tenant=tenant) for tenant, server, tool in product(names, repeat=3)}

    assert len(keys) == len(names) ** 3


@pytest.mark.parametrize(
    "failure",
    [
        ToolResult.failed("no such user"),
        {"isError": True, "content": []},
        {"success": False},
        {"resultType": "input_required", "inputRequests": {}},
        b'{"content":[],"isError":true}',
        b'{"content":[],"is\\u0045rror": true}',
        b'{"content":[],"isError":"yes"}',
        b'{"resultType":"input_required","inputRequests":{}}',
        b' {"content":[{"text":"\\ud800"}],"isError":true',
        b'{"a":' * 100_000,
    ],
)
def test_a_failure_or_a_question_is_not_kept(failure: Any) -> None:
    cache = ToolResultCache()

    assert not cache.cache_result("get_user", ARGS, failure)
    assert not cache.has_cached_result("get_user", ARGS)


@pytest.mark.parametrize(
    "answer",
    [
        ToolResult.of("fine"),
        {"isError": False, "content": []},
        {"success": True},
        {"resultType": "complete", "content": []},
        b'{"content":[],"isError":false}',
        b'{"content":[],"resultType":"complete"}',
        b"\x89PNG",
        b"",
        None,
        "text",
        [1, 2],
    ],
)
def test_an_answer_is_kept_as_it_is(answer: Any) -> None:
    cache = ToolResultCache()

    assert cache.cache_result("get_user", ARGS, answer)
    assert cache.has_cached_result("get_user", ARGS)
    assert cache.get_cached_result("get_user", ARGS, "nothing") == answer


def test_a_failure_does_not_drive_out_an_earlier_answer() -> None:
    cache = ToolResultCache()
    cache.cache_result("get_user", ARGS, "Alice")
    cache.cache_result("get_user", ARGS, ToolResult.failed("busy"))

    assert cache.get_cached_result("get_user", ARGS) == "Alice"


def test_a_tools_answers_can_be_removed_for_all_or_for_one() -> None:
    cache = filled()
    assert cache.invalidate_tool("get", tenant="ann") == 2
    assert cache.invalidate_tool("get", server="one") == 1
    assert cache.invalidate_tool("get") == 1

    assert cache.get_stats().size == 5
    assert cache.has_cached_result("get:more", {}, tenant="ann", server="one")


@pytest.mark.parametrize("odd", [":", "a:b", "*", "%", "é"])
def test_a_tools_answers_are_found_whatever_the_names(odd: str) -> None:
    cache = ToolResultCache()
    cache.cache_result(odd, {}, 1, tenant=odd, server=odd)
    assert cache.invalidate_tool(odd) == 1
    cache.cache_result(odd, {}, 1, tenant=odd, server=odd)

    assert cache.invalidate_tool(odd, tenant=odd, server=odd) == 1


@pytest.mark.parametrize("name", ["*", "**", "ge?", "g*", "", ":", "get:*"])
def test_a_tools_name_is_not_a_pattern(name: str) -> None:
    cache = filled()

    assert cache.invalidate_tool(name) == 0
    assert cache.invalidate_tool("get", tenant=name) == 0
    assert cache.invalidate_tool("get", server=name) == 0


def filled() -> ToolResultCache:
    cache = ToolResultCache()
    for tenant, server, tool in product(["ann", "bob"], ["one", "two"], ["get", "get:more"]):
        cache.cache_result(tool, {}, 1, tenant=tenant, server=server)
    cache.cache_result("set", {}, 1)
    return cache


def test_answers_have_a_lifetime_and_options_like_any_entry() -> None:
    now = 0.0
    cache = create_tool_result_cache(ttl=10, strategy="lfu", clock=lambda: now)
    cache.cache_result("a", {}, 1)
    cache.cache_result("b", {}, 1, ttl=20)
    now = 10.0

    assert not cache.has_cached_result("a", {})
    assert cache.has_cached_result("b", {})
    with pytest.raises(ConfigError):
        create_tool_result_cache(max_size=0)


def test_events_carry_a_namespace_and_neither_answer_nor_arguments() -> None:
    cache = ToolResultCache()
    events: list[Any] = []
    cache.on(CacheSet, events.append)
    cache.on("hit", events.append)
    cache.cache_result("get", {"password": "hunter2"}, "treasure")
    cache.get_cached_result("get", {"password": "hunter2"})
    cache.off("hit", events.append)
    cache.get_cached_result("get", {"password": "hunter2"})

    key = result_key("get", {"password": "hunter2"})
    assert events == [CacheSet(key, 8, 300, "tool-results"), CacheHit(key, 8, "tool-results")]
    assert "hunter2" not in repr(events)
    assert "treasure" not in repr(events)


def test_a_cache_of_answers_can_be_cleared_and_destroyed() -> None:
    cache = ToolResultCache()
    cache.cache_result("a", {}, 1)
    cache.clear()
    assert cache.get_stats().size == 0
    cache.destroy()
    cache.destroy()

    assert not cache.cache_result("a", {}, 1)
