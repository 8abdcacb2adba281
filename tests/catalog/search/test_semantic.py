"""Tools found by meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.search.tools import TOOLS, filled
from trunkline.catalog.search.bm25 import Bm25Index
from trunkline.catalog.search.finder import Finder
from trunkline.catalog.search.hybrid import HybridIndex
from trunkline.catalog.search.index import Only
from trunkline.catalog.search.semantic import SemanticIndex
from trunkline.catalog.search.text import ToolText
from trunkline.catalog.search.vectors import Vectors, open_vectors
from trunkline.errors import UnreachableError

MEANINGS = (
    ("weather", "forecast", "umbrella", "rain"),
    ("mail", "message", "letter"),
    ("file", "document"),
    ("github", "code"),
)


class Model:
    """A model that knows a few words."""

    def __init__(self, model: str = "words") -> None:
        self.model = model
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = False

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        await self.gate.wait()
        if self.failing:
            raise UnreachableError("The model is away.")
        self.asked += texts
        return [[-0.1 + sum(text.lower().count(word) for word in words) for words in MEANINGS] for text in texts]


async def test_a_tool_is_found_by_what_it_means() -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        finder = filled_finder(vectors, "semantic")
        await vectors.settled()

        hits = await finder.find("do I need an umbrella")

    assert hits[0].key == "weather/get_forecast"
    assert hits[0].reasons[-1].word == "(meaning)"
    assert 0.0 < hits[0].score <= 1.0


async def test_both_ways_together_find_what_either_finds() -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        finder = filled_finder(vectors, "hybrid")
        await vectors.settled()

        by_meaning = await finder.find("umbrella")
        by_word = await finder.find("bar chart")

    assert by_meaning[0].key == "weather/get_forecast"
    assert by_word[0].key == "charts/bar_chart"


async def test_missing_vectors_delay_no_answer() -> None:
    model = Model()
    model.gate.clear()
    async with asyncio.timeout(5), open_vectors(model) as vectors:
        finder = filled_finder(vectors, "hybrid", query_timeout=0.0)

        hits = await finder.find("read a file")

    assert hits == filled(Bm25Index()).search("read a file")


async def test_a_model_that_fails_leaves_the_words() -> None:
    model = Model()
    model.failing = True
    async with asyncio.timeout(5), open_vectors(model) as vectors:
        finder = filled_finder(vectors, "semantic")

        assert (await finder.find("read a file"))[0].key == "files/read_file"


async def test_a_tool_without_a_vector_is_still_found_by_its_words() -> None:
    model = Model()
    async with asyncio.timeout(5), open_vectors(model) as vectors:
        finder = filled_finder(vectors, "hybrid")
        await vectors.settled()
        await vectors.prepare(["transmogrify the file"], timeout=1)
        model.gate.clear()
        finder.add(ToolText("odd/transmogrify", "transmogrify"))

        assert "odd/transmogrify" in {hit.key for hit in finder.search("transmogrify the file")}


async def test_a_tool_that_changed_or_went_while_its_vector_was_computed_is_not_found_by_the_old_one() -> None:
    model = Model()
    model.gate.clear()
    async with asyncio.timeout(5), open_vectors(model) as vectors:
        index = SemanticIndex(vectors)
        index.add(ToolText("a", "umbrella"))
        index.add(ToolText("a", "letter"))
        index.add(ToolText("b", "rain"))
        index.remove("b")
        model.gate.set()
        await vectors.settled()
        await vectors.prepare(["rain", "mail"], timeout=1)

        assert index.search("rain") == []
        assert [hit.key for hit in index.search("mail")] == ["a"]


async def test_vectors_are_kept_on_disk_for_each_model(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "vectors"
    async with asyncio.timeout(5):
        for model, computed in ((Model(), len(TOOLS)), (Model(), 0), (Model("other"), len(TOOLS))):
            async with open_vectors(model, path, batch=3) as vectors:
                filled(SemanticIndex(vectors))
                await vectors.settled()
            assert len(model.asked) == computed


async def test_a_torn_file_costs_only_what_was_torn(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    async with asyncio.timeout(5):
        async with open_vectors(Model(), path) as vectors:
            filled(SemanticIndex(vectors))
            await vectors.settled()
        whole = path.read_bytes()
        path.write_bytes(whole[:-3])
        for computed in (1, 0):
            model = Model()
            async with open_vectors(model, path) as vectors:
                filled(SemanticIndex(vectors))
                await vectors.settled()
            assert len(model.asked) == computed
            assert path.read_bytes() == whole


async def test_a_model_that_gives_too_few_vectors_is_not_believed() -> None:
    class Short(Model):
        async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            return [[1.0]] * (len(texts) - 1)

    vectors = Vectors(Short())
    await vectors.prepare(["one"], timeout=1)

    assert vectors.known("one") is None


async def test_a_query_is_embedded_once() -> None:
    model = Model()
    vectors = Vectors(model)
    for _ in range(3):
        await vectors.prepare(["rain", "rain"], timeout=1)

    assert model.asked == ["rain"]


def test_without_vectors_hybrid_is_bm25() -> None:
    for query in ("read a file", "send an email"):
        assert filled(HybridIndex(SemanticIndex(Vectors(Model())))).search(query) == filled(Bm25Index()).search(query)


@pytest.mark.parametrize("only", [["files/read_file"], "files/read_file".__eq__])
async def test_only_some_tools_can_be_asked_for_by_meaning(only: Only) -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        index = filled(HybridIndex(SemanticIndex(vectors)))
        await vectors.settled()
        await vectors.prepare(["document"], timeout=1)

        assert [hit.key for hit in index.search("document", only=only)] == ["files/read_file"]


def filled_finder(vectors: Vectors, strategy: str, **options: Any) -> Finder:
    finder = Finder(strategy=strategy, vectors=vectors, **options)
    for tool in TOOLS:
        finder.add(tool)
    return finder
