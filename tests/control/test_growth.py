"""What many servers and long lists cost is what changed of them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.config.options import Config, SearchSection
from trunkline.config.reading import parse
from trunkline.config.server import ServerSpec
from trunkline.control.history import History
from trunkline.control.merging import Catalogue, join_servers
from trunkline.control.registry import Registry
from trunkline.control.search import SearchIndex, ToolSearch, text_of
from trunkline.control.tables import differing
from trunkline.control.views import Views
from trunkline.identity import EVERYONE
from trunkline.model import EMPTY_SNAPSHOT, Entry, Kind, Listing, ServerView, Snapshot, State
from trunkline.search import calibrate, lexicon
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText
from trunkline.tasks import open_tasks

Servers = dict[str, ServerView]


def listing(*tools: str, words: str = "") -> Listing:
    """A list of tools by these names."""
    return Listing(tuple(json.dumps({"name": name, "description": words}).encode() for name in tools))


def server(name: str, *tools: str, words: str = "") -> ServerView:
    return ServerView(name, State.READY, lists={Kind.TOOL: listing(*tools, words=words)})


def changed(views: Servers, name: str, *tools: str, words: str = "") -> Servers:
    """The same servers, one with another list."""
    view = dataclasses.replace(views[name], lists={Kind.TOOL: listing(*tools, words=words)})
    return {**views, name: view}


def test_a_changed_list_makes_no_entry_of_another_server_anew() -> None:
    config, catalogue = Config(), Catalogue()
    views = {f"s{n}": server(f"s{n}", "read", "write") for n in range(50)}
    before = catalogue.join(views, config, 1)
    steps = 0

    later = changed(views, "s7", "read", "write", "delete")
    for _ in catalogue.prepare(later, config):
        steps += 1
    after = catalogue.join(later, config, 2)

    assert [name for name, offer in after.offers.items() if offer is not before.offers[name]] == ["s7"]
    assert [name for name, entry in after.tools.items() if entry is not before.tools.get(name)] == ["s7__delete"]
    assert steps == 7  # each of its three tools is looked at twice, and the server once
    assert list(after.tools)[14:17] == ["s7__read", "s7__write", "s7__delete"]


@contextmanager
def counted() -> Generator[Counter[str]]:
    """The steps of the interpreter in each of our modules, in this thread."""
    steps: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if "/trunkline/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps[frame.f_code.co_filename] += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


async def steps_of_a_change(servers: int, home: Path) -> Counter[str]:
    """What one server's changed list has us do, until it can be seen, found and is in the history."""
    config = Config(home=home)
    async with open_tasks() as tasks:
        views, history = Views(config), History(tasks=tasks)
        search = ToolSearch(SearchSection(strategy="bm25"), home, tasks)

        def publish(snapshot: Snapshot) -> None:
            views.of(EVERYONE, snapshot)
            history.follow(snapshot)

        registry = Registry(config, tasks, publish)
        for n in range(servers):
            registry.add(ServerSpec(f"s{n}", command="true"))
            registry.update(f"s{n}", state=State.READY, lists={Kind.TOOL: listing("read", "write")})
        for words in ("warm", "old", "new"):
            await registry.published()
            await search.prepare(registry.snapshot)
            await history.settled()
            with counted() as steps:
                registry.update("s7", lists={Kind.TOOL: listing("read", "write", words=words)})
                await registry.published()
                await search.prepare(registry.snapshot)
        assert [found.tool.shown for found in await search.find(
            "new", registry.snapshot, newest=registry.snapshot, limit=5
        )] == ["s7__read", "s7__write"]  # fmt: skip
        await history.settled()
    return steps


async def test_one_changed_list_has_nothing_done_for_other_servers(tmp_path: Path) -> None:
    few, many = await steps_of_a_change(20, tmp_path / "few"), await steps_of_a_change(220, tmp_path / "many")

    assert few.total() > 1000
    assert {module: steps - few[module] for module, steps in many.items() if steps - few[module] > 200} == {}


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, set[str]()),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, set[str]()),
        ({"a": 1, "b": 2}, {"b": 2}, {"a"}),
        ({"a": 1}, {"c": 5, "a": 4}, {"a", "c"}),
        ({}, {"a": 1}, {"a"}),
    ],
)
def test_what_differs_is_told_by_name(before: dict[str, int], now: dict[str, int], found: set[str]) -> None:
    assert set(differing(before, now)) == found


def test_what_views_need_of_a_long_list_is_known_before_anybody_looks() -> None:
    config, catalogue = Config(), Catalogue()
    snapshot = catalogue.join({"long": server("long", *(f"tool_{n}" for n in range(500)))}, config, 1)

    with counted() as steps:
        Views(config).of(EVERYONE, snapshot)

    assert steps.total() < 3_000


async def test_lists_of_words_are_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: set[int] = set()

    def read(package: str) -> Traversable:
        readers.add(threading.get_ident())
        return files(package)

    for module, reader in ((lexicon, lexicon.lexicon), (calibrate, calibrate.at_large)):
        monkeypatch.setattr(module, "files", read)
        reader.cache_clear()
    async with open_tasks() as tasks:
        search = ToolSearch(SearchSection(strategy="bm25"), tmp_path, tasks)
        await search.find("some words", EMPTY_SNAPSHOT, newest=EMPTY_SNAPSHOT, limit=1)

    assert readers
    assert threading.get_ident() not in readers


def test_how_a_server_fares_changes_no_table() -> None:
    config, catalogue = Config(), Catalogue()
    views = {name: server(name, "read") for name in ("a", "b")}
    before = catalogue.join(views, config, 1)

    after = catalogue.join({**views, "a": dataclasses.replace(views["a"], state=State.DEGRADED)}, config, 2)

    assert after.servers["a"].state is State.DEGRADED
    assert after.tools is before.tools


NAMES = st.sampled_from(["read", "write", "x.y", "a__read", "search_tools", "ä"])
SERVERS = st.sampled_from(["a", "b", "c", "a__b"])
CHANGES = st.lists(st.tuples(SERVERS, st.none() | st.lists(NAMES, unique=True, max_size=4), NAMES), max_size=6)


@given(
    CHANGES,
    st.sampled_from(["auto", "always", "never"]),
    st.sampled_from(["namespace", "first-wins", "last-wins", "error"]),
    st.booleans(),
)
def test_what_was_joined_step_by_step_is_what_is_joined_at_once(
    changes: list[tuple[str, list[str] | None, str]], namespace: str, conflicts: str, grouped: bool
) -> None:
    document: dict[str, Any] = {"servers": {name: {"command": "true"} for name in ("a", "b", "c", "a__b")}}
    document["gateway"] = {"namespace": namespace, "conflicts": conflicts}
    document["groups"] = {"g": {"servers": ["a", "b"]}} if grouped else {}
    config, catalogue, views = parse(document, env={}), Catalogue(), Servers()
    for version, (name, tools, words) in enumerate(changes):
        views = {other: view for other, view in views.items() if other != name or tools is not None}
        if tools is not None:
            views[name] = server(name, *tools, words=words)

        stepwise, whole = catalogue.join(views, config, version), join_servers(views, config, version)

        assert list(stepwise.tools.items()) == list(whole.tools.items())
        assert {name: dict(offer.tools) for name, offer in stepwise.offers.items()} == {
            name: dict(offer.tools) for name, offer in whole.offers.items()
        }
        assert (stepwise.bare, stepwise.problems) == (whole.bare, whole.problems)


async def test_what_comes_together_is_published_once() -> None:
    published: list[Snapshot] = []
    told: list[frozenset[Kind]] = []
    async with open_tasks() as tasks:
        registry = Registry(Config(), tasks, published.append)
        registry.listen(told.append)
        for n in range(200):
            registry.add(ServerSpec(f"s{n}", command="true"))
            registry.update(f"s{n}", state=State.READY, lists={Kind.TOOL: listing("read")})
        await registry.published()

    assert [len(snapshot.tools) for snapshot in published] == [200]
    assert told == [frozenset({Kind.TOOL})]


def test_servers_that_list_nothing_yet_are_joined_one_at_a_step() -> None:
    views = {f"s{n}": ServerView(f"s{n}") for n in range(50)}

    assert len(list(Catalogue().prepare(views, Config()))) == 50


async def test_what_comes_with_another_configuration_is_not_published_before_it() -> None:
    published: list[Snapshot] = []
    async with open_tasks() as tasks:
        registry = Registry(Config(), tasks, published.append)
        with registry.held():
            registry.add(ServerSpec("new", command="true"))
            told = tasks.start(registry.published())
            for _ in range(100):
                await asyncio.sleep(0)
            before = list(published)
        await told

    assert before == []
    assert [list(snapshot.servers) for snapshot in published] == [["new"]]


async def test_a_long_list_holds_up_nobody() -> None:
    turns = 0
    ended = asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not ended.is_set():
            await asyncio.sleep(0)
            turns += 1

    async with open_tasks() as tasks:
        registry = Registry(Config(), tasks, lambda snapshot: None)
        registry.add(ServerSpec("long", command="true"))
        await registry.published()
        registry.update("long", state=State.READY, lists={Kind.TOOL: listing(*(f"tool_{n}" for n in range(4000)))})
        tasks.start(others())
        await registry.published()
        ended.set()

    assert len(registry.snapshot.tools) == 4000
    assert turns > 8


def test_an_index_reads_only_what_is_in_the_place_of_what_changed() -> None:
    read: list[str] = []

    def text(key: str, tool: Entry) -> ToolText:
        read.append(key)
        return text_of(key, tool)

    index = SearchIndex(Finder(strategy="bm25"), text)
    one, two, three = (Entry(name, "s", name, b'{"name":"%s"}' % name.encode()) for name in ("one", "two", "three"))
    list(index.update({"s/one": one, "s/two": two}))
    read.clear()

    list(index.update({"s/three": three}, instead=["s/two"]))

    assert read == ["s/three"]
    assert index.tools == {"s/one": one, "s/three": three}
