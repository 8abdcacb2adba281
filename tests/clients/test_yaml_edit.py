"""YAML as far as clients use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.clients import yaml_edit
from trunkline.clients.yaml_edit import parse


@pytest.fixture(autouse=True, params=["C", "Python"], scope="module")
def loader(request: pytest.FixtureRequest) -> Iterator[None]:
    """PyYAML as it is, and as it is where its C library is not."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "Python":
            patch.delattr(yaml, "CSafeLoader", raising=False)
        yield


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment\n", None),
        ("---\na: 1\n", {"a": 1}),
        ("a: 1\nb: -2\nc: 0.7\nd: 007\ne: 1e3", {"a": 1, "b": -2, "c": "0.7", "d": "007", "e": "1e3"}),
        ("a: true\nb: False\nc: yes\nd: null\ne: ~\nf:\n", {"a": True, "b": False, "c": "yes"} | dict.fromkeys("def")),
        ("a: text with spaces # comment\nb: a#b\n", {"a": "text with spaces", "b": "a#b"}),
        ('a: "q \\" \\u00fc \\x41 \\n"\n', {"a": 'q " ü A \n'}),
        ("a: 'it''s'\n", {"a": "it's"}),
        ("\"quoted key\": 1\n'other': 2\n", {"quoted key": 1, "other": 2}),
        ("a:\n  b:\n    c: d\n", {"a": {"b": {"c": "d"}}}),
        ("a:\n- 1\n- 2\nb: 3\n", {"a": [1, 2], "b": 3}),
        ("a:\n  - b: 1\n    c: 2\n  - d\n", {"a": [{"b": 1, "c": 2}, "d"]}),
        ("- - 1\n  - 2\n- 3\n", [[1, 2], 3]),
        ("a:\n  -\n    b: 1\n", {"a": [{"b": 1}]}),
        ("a: []\nb: {}\nc: [1, two, 'three', {x: y}, ]\n", {"a": [], "b": {}, "c": [1, "two", "three", {"x": "y"}]}),
        ("a: [\n  1, # one\n  2\n]\nb: 1\n", {"a": [1, 2], "b": 1}),
        ('a: {"b":1, c: http://x:80/y}\n', {"a": {"b": 1, "c": "http://x:80/y"}}),
        ("a: |\n  one\n   two\n\n  three\n\nb: 1\n", {"a": "one\n two\n\nthree\n", "b": 1}),
        ("a: |-\n  one\nb: >-\n  two\n  lines\n", {"a": "one", "b": "two lines"}),
        ("a: |+\n  one\n\nb: 1\n", {"a": "one\n\n", "b": 1}),
        ("a: |2\n    x\nb: 1\n", {"a": "  x\n", "b": 1}),
        ("a: |\n  # no comment\n  b: 1\n", {"a": "# no comment\nb: 1\n"}),
        ("a: one\n  two\n\n  three\nb: 1\n", {"a": "one two\nthree", "b": 1}),
        ('a: "one\n  two\n\n  three"\n', {"a": "one two\nthree"}),
        ("a: ${{ secrets.X }}\n", {"a": "${{ secrets.X }}"}),
        ("url: http://h:1/p?q=1#f\n", {"url": "http://h:1/p?q=1#f"}),
        ("a:   \n  # comment\n\n  b: 1\n# end\n", {"a": {"b": 1}}),
        ("a: 1\r\nb:\r\n  - x\r\n", {"a": 1, "b": ["x"]}),
        ("ключ: значение\n日本: 語\n", {"ключ": "значение", "日本": "語"}),
        ("a: -x\nb: -y\n", {"a": "-x", "b": "-y"}),
        ("-y: 1\n", {"-y": 1}),
        ("a: C:\\dir\n", {"a": "C:\\dir"}),
    ],
)
def test_values_are_read(text: str, value: Any) -> None:
    assert parse(text).value == value


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        "a: !!str 1\n",
        "%YAML 1.2\n---\na: 1\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\n...\n",
        "? a\n: b\n",
        "\ta: 1\n",
        "a:\n\t- 1\n",
        "a: 1\n  b: 2\n",
        "a:\n  b: 1\n c: 2\n",
        "a: b: c\n",
        "a: 'x' y\n",
        "a: [1, 2\n",
        "a: {b}\n",
        "a: [*x]\n",
        'a: "\\q"\n',
        "a: 1\na: 2\n",
        "a: - b\n",
        "just text\nand: more\n",
        "a: @x\n",
        "a: |x\n  y\n",
        "[" * 5000,
        "- " * 5000,
        "a: {b: 1, b: 2}\n",
        ": 1\n",
        "{a: 1}: 2\n",
        "a: &x [1]\nb: &y [*x, *x]\nc: [*y, *y]\n",
        "a: !!python/object/apply:os.getcwd []\n",
        "<<: *x\n",
        "a: \x07\n",
    ],
)
def test_what_is_beyond_it_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read: line \d+|nested too deeply"):
        parse(text)


@pytest.mark.parametrize(("text", "mark"), [("a: &x 1\n", "&"), ("a: [*x]\n", "*"), ("a:\n  b: !t 1\n", "!")])
def test_what_no_client_writes_is_named(text: str, mark: str) -> None:
    with pytest.raises(ValueError, match=rf"cannot be read: line [12] uses '\{mark}', which is not understood here"):
        parse(text)


def test_a_text_that_would_take_minutes_is_not_read() -> None:
    with pytest.raises(ValueError, match="has more than 1 MiB"):
        parse("a: [" + "x," * 2**19 + "]\n")


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
values = st.one_of(words, st.integers(-999, 999), st.booleans(), st.lists(words, max_size=3))
entries = st.dictionaries(words, st.one_of(values, st.dictionaries(words, words, max_size=3)), min_size=1, max_size=5)


@given(words, entries, st.booleans())
@settings(max_examples=120, deadline=None)
def test_whatever_is_put_is_read_again(key: str, entry: dict[str, Any], listed: bool) -> None:
    value = {"name": key or "x", **{name: item for name, item in entry.items() if name != "name"}}

    text = yaml_edit.put("top: 1\n", ("servers", value["name"]), value, listed=listed)

    assert yaml_edit.read(text) == {"top": 1, "servers": [value] if listed else {value["name"]: value}}


ENTRY = {"name": "t", "url": "http://x:1/mcp"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "s:\n  - name: t\n    url: http://x:1/mcp\n"),
        ("a: 1", "a: 1\ns:\n  - name: t\n    url: http://x:1/mcp\n"),
        ("s: []\nb: 1\n", "s:\n  - name: t\n    url: http://x:1/mcp\nb: 1\n"),
        ("s: [] # none\n", "s: # none\n  - name: t\n    url: http://x:1/mcp\n"),
        ("s:\nb: 1\n", "s:\n  - name: t\n    url: http://x:1/mcp\nb: 1\n"),
        ("s:", "s:\n  - name: t\n    url: http://x:1/mcp"),
        ("s:\n- name: a\n\n# end\n", "s:\n- name: a\n- name: t\n  url: http://x:1/mcp\n\n# end\n"),
        ("s:\n    -   name: a\n", "s:\n    -   name: a\n    - name: t\n      url: http://x:1/mcp\n"),
        ("s:\n  - name: t\n    x: 1\n  - b\n", "s:\n  - name: t\n    url: http://x:1/mcp\n  - b\n"),
        ("s:\r\n  - name: a\r\n", "s:\r\n  - name: a\r\n  - name: t\r\n    url: http://x:1/mcp\r\n"),
        ("s:\n  - name: a", "s:\n  - name: a\n  - name: t\n    url: http://x:1/mcp"),
        (
            "s:\n  - name: a\n    p: |\n      x\n\n",
            "s:\n  - name: a\n    p: |\n      x\n  - name: t\n    url: http://x:1/mcp\n\n",
        ),
    ],
)
def test_an_item_is_written_in_the_manner_of_the_file(before: str, after: str) -> None:
    assert yaml_edit.put(before, ("s", "t"), ENTRY, listed=True) == after


def test_what_was_put_behind_others_is_taken_back_to_the_byte() -> None:
    text = "# top\ns:\n  a: # first\n    x: 1\n\n  # second\n  b: {}\n\nlast: 1\n"

    after = yaml_edit.put(text, ("s", "t"), ENTRY, listed=False)

    assert yaml_edit.take(after, ("s", "t")) == text


def test_the_last_one_that_is_taken_leaves_an_empty_container_not_nothing() -> None:
    assert yaml_edit.take("s:\n  - name: t\n    x: 1\nb: 1\n", ("s", "t")) == "s: []\nb: 1\n"
    assert yaml_edit.take("s: # c\n  t:\n    x: 1\n", ("s", "t")) == "s: {} # c\n"
    assert yaml_edit.take("s: 1\n", ("s", "t")) == "s: 1\n"


@pytest.mark.parametrize("text", ["s: text\n", "s: {a: 1}\n", "s: [1]\n", "s:\n  a: 1\n", "- s\n"])
def test_a_container_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"form that is not changed here|not a YAML mapping"):
        yaml_edit.put(text, ("s", "t"), ENTRY, listed=True)
