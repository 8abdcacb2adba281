"""Which template an address belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.tools.uri_templates import matches


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("file:///{name}", "file:///a", True),
        ("file:///{name}", "file:///a/b", False),
        ("file:///{name}", "file:///", False),
        ("file:///{name}", "http:///a", False),
        ("file:///{+path}", "file:///a/b/c", True),
        ("file:///{path*}", "file:///a/b/c", True),
        ("users://{id}/posts/{post}", "users://1/posts/2", True),
        ("users://{id}/posts/{post}", "users://1/posts/", False),
        ("users://{id}/posts/{post}", "users://1/2/posts/3", False),
        ("db://{table}.json", "db://users.json", True),
        ("db://{table}.json", "db://users.xml", False),
        ("x://{a}-{b}", "x://1-2", True),
        ("x://list{?page,size}", "x://list?page=1&size=2", True),
        ("x://list{?page}", "x://list", True),
        ("x://doc{#part}", "x://doc#top", True),
        ("plain://address", "plain://address", True),
        ("plain://address", "plain://addressX", False),
        ("a.b://{x}", "aXb://1", False),
        ("x://(a+)+{y}", "x://(a+)+1", True),
        ("x://{a}", "x://é", True),
        ("x://{a}", "x://one\ntwo", True),
    ],
)
def test_an_address_matches_its_template(template: str, uri: str, expected: bool) -> None:
    assert matches(template, uri) is expected


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("{a}" * 20 + "!", "a" * 50_000),
        ("{+a}" * 20 + "!", "a" * 50_000),
        ("{a*}{b*}{c*}{d*}{e*}!", "a" * 50_000),
        ("x://" + "{a}a" * 20 + "!", "x://" + "a" * 50_000),
        ("x://" + "{+a}/" * 20 + "!", "x://" + "/" * 50_000),
        ("x://{a}-{b}-{c}-{d}!", "x://" + "-" * 50_000),
    ],
)
def test_no_address_makes_matching_slow(template: str, uri: str) -> None:
    assert not matches(template, uri)


@pytest.mark.parametrize(
    "template", ["{" * 50_000, "{a" * 900, "{a}" * 500, "x" * 50_000, "{}" * 20, "[", "(?P<", "{a}{"]
)
def test_a_strange_template_matches_nothing_and_breaks_nothing(template: str) -> None:
    assert not matches(template, "x://y/z")


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_template_and_address_are_judged(template: str, uri: str) -> None:
    assert matches(template, uri) in (True, False)


@given(st.text(st.characters(exclude_characters="/{}"), min_size=1, max_size=30))
def test_what_a_variable_stands_for_is_matched(value: str) -> None:
    assert matches("x://{name}", f"x://{value}")
