"""Templates of addresses: what fits, what the variables are, and how long that takes."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.errors import ConfigError
from trunkline.tools.uri_templates import UriTemplate, matches


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
        ("x://{a}.tar.gz", "x://a.b.tar.gz", True),
        ("x://{a}{b}", "x://12", True),
        ("x://{a}{b}", "x://1", False),
        ("x://{a}b{+c}", "x://1b2/3b4", True),
        ("x://list{?page,size}", "x://list?page=1&size=2", True),
        ("x://list{?page}", "x://list", True),
        ("x://doc{#part}", "x://doc#top", True),
        ("plain://address", "plain://address", True),
        ("plain://address", "plain://addressX", False),
        ("a.b://{x}", "aXb://1", False),
        ("x://(a+)+{y}", "x://(a+)+1", True),
        ("x://{a}", "x://é", True),
        ("x://{a}", "x://one\ntwo", True),
        ("x://a{/b}", "x://a/c", True),
        ("x://a{.kind}", "x://a.json", True),
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
        ("{+a}" * 20 + "!", "a" * 8_000),
        ("x://" + "{+a}a" * 20 + "!", "x://" + "a" * 7_996),
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
    judged = matches(template, uri)

    if "{" not in template and "}" not in template:
        assert judged == (template == uri)


@given(st.text("ab/", max_size=12), st.lists(st.sampled_from(["a", "b", "/", "ab", "{x}", "{+x}"]), max_size=6))
def test_an_address_is_judged_as_a_search_of_all_ways_to_read_it_would(uri: str, pieces: list[str]) -> None:
    whole = {"{x}": "[^/]+", "{+x}": ".*"}

    judged = matches("".join(pieces), uri)

    assert judged == bool(re.fullmatch("".join(whole.get(piece, piece) for piece in pieces), uri))


@given(st.text(st.characters(exclude_characters="/{}"), min_size=1, max_size=30))
def test_what_a_variable_stands_for_is_matched(value: str) -> None:
    assert matches("x://{name}", f"x://{value}")


CASES: list[tuple[str, str, dict[str, str] | None]] = [
    ("data://users/{id}", "data://users/7", {"id": "7"}),
    ("data://users/{id}", "data://users/", None),
    ("data://users/{id}", "data://users/7/posts", None),
    ("data://users/{id}", "other://users/7", None),
    ("data://users/{id}/posts/{post}", "data://users/7/posts/a%20b", {"id": "7", "post": "a b"}),
    ("x://{a}-{b}", "x://1-2-3", {"a": "1-2", "b": "3"}),
    ("x://{+a}-{b}", "x://1-2/3-4", {"a": "1-2/3", "b": "4"}),
    ("file:///{+path}", "file:///a/b/c.txt", {"path": "a/b/c.txt"}),
    ("file://{/path*}", "file:///a/b", {"path": "a/b"}),
    ("x://a{/b}", "x://a/c", {"b": "c"}),
    ("x://a{#part}", "x://a#b/c", {"part": "b/c"}),
    ("x://a{.kind}", "x://a.json", {"kind": "json"}),
    ("x://find{?q,n}", "x://find?n=3&q=a+b", {"n": "3", "q": "a b"}),
    ("x://find{?q,n}", "x://find", {}),
    ("x://find{?q}", "x://find?other=1", None),
    ("x://find{?q}", "x://find?q=1&q=2", None),
    ("x://a*b/{c}", "x://a*b/1", {"c": "1"}),
    ("x://a*b/{c}", "x://axxb/1", None),
    # One step of a path stays one step, whatever it is encoded as.
    ("note://{title}", "note://..", None),
    ("note://{title}", "note://%2E%2E", None),
    ("note://{title}", "note://a%2F..%2F..%2Fetc", None),
    ("note://{title}", "note://a%00b", None),
]


@pytest.mark.parametrize(("template", "uri", "variables"), CASES)
def test_an_address_fits_or_does_not(template: str, uri: str, variables: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == variables


@pytest.mark.parametrize(
    "wrong",
    ["x://{a", "x://a}", "x://{}", "x://{a}{b}", "x://{a}/{a}", "x://{a:3}", "x://{;a}", "x://{?q}/x", "x://{a*}"],
)
def test_what_cannot_be_told_apart_is_refused_at_once(wrong: str) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        UriTemplate(wrong)


@pytest.mark.timeout(10)
def test_no_address_can_stall_the_server() -> None:
    many = UriTemplate("x://" + "aba".join(f"{{+v{number}}}" for number in range(1000)))
    assert many.match("x://" + "ab" * 30_000 + "c") is not None

    template = UriTemplate("x://" + "a".join(f"{{+v{number}}}" for number in range(25)))

    assert template.match("x://" + "a" * 7000 + "/b?") is not None
    assert (
        UriTemplate("x://" + "a".join(f"{{v{number}}}" for number in range(25))).match("x://" + "a" * 7000 + "/")
        is None
    )


@given(st.lists(st.text(min_size=1).filter(lambda value: value not in (".", "..")), min_size=1, max_size=4))
def test_values_that_were_put_in_come_out(values: list[str]) -> None:
    if any(mark in value for value in values for mark in "/\\\0") or any(
        "\ud800" <= c <= "\udfff" for v in values for c in v
    ):
        return
    template = UriTemplate("x://" + "/".join(f"{{v{place}}}" for place in range(len(values))))

    found = template.match("x://" + "/".join(quote(value, safe="") for value in values))

    assert found == {f"v{place}": value for place, value in enumerate(values)}
