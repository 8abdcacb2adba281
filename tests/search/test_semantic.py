"""Tools found by meaning."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.search.small_model import Model
from tests.search.tools import TOOLS, filled
from trunkline.errors import ConfigError
from trunkline.search.bm25 import Bm25Index
from trunkline.search.finder import Finder
from trunkline.search.index import Only
from trunkline.search.semantic import HybridIndex, SemanticIndex
from trunkline.search.text import ToolText
from trunkline.search.vectors import Vectors, open_vectors


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

    assert hits == [replace(hit, words_alone=True) for hit in filled(Bm25Index()).search("read a file")]


async def test_while_most_tools_have_no_vector_yet_no_search_waits_for_its_own() -> None:
    model = Model()
    model.gate.clear()
    many = [
        ToolText(f"shop/tool_{number}", f"tool_{number}", "shop", f"Sells number {number}.") for number in range(300)
    ]
    async with asyncio.timeout(5), open_vectors(model) as vectors:
        finder = filled_finder(vectors, "hybrid", query_timeout=1000.0)
        for tool in many:
            finder.add(tool)
        hits = await finder.find("read a file")

        assert [hits[0].key, hits[0].words_alone] == ["files/read_file", True]


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
        await vectors.prepare([["transmogrify the file"]], timeout=1)
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
        await vectors.prepare([["rain"], ["mail"]], timeout=1)

        assert index.search("rain") == []
        assert [hit.key for hit in index.search("mail")] == ["a"]


async def test_without_vectors_hybrid_is_bm25() -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        index = filled(HybridIndex(SemanticIndex(vectors)))

        for query in ("read a file", "send an email"):
            assert index.search(query) == filled(Bm25Index()).search(query)


@pytest.mark.parametrize("only", [["files/read_file"], "files/read_file".__eq__])
async def test_only_some_tools_can_be_asked_for_by_meaning(only: Only) -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        index = filled(HybridIndex(SemanticIndex(vectors)))
        await vectors.settled()
        await vectors.prepare([["document"]], timeout=1)

        assert [hit.key for hit in index.search("document", only=only)] == ["files/read_file"]


async def test_a_long_prompt_is_near_to_what_one_of_its_parts_means() -> None:
    prompt = "Look at the forecast for Oslo and for Bergen, write a letter about it to Ann, then file the document away"
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        index = filled(SemanticIndex(vectors))
        await vectors.settled()
        await vectors.prepare([[prompt, "write a letter to Ann"]], timeout=1)

        near = index.nearest(prompt, limit=len(TOOLS))

        assert near["mail/send_email"] == pytest.approx(
            index.nearest("write a letter to Ann", limit=1)["mail/send_email"]
        )


async def test_a_tool_that_is_one_of_many_alike_passes_no_other_by_that() -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        index = SemanticIndex(vectors)
        for number in range(20):
            index.add(ToolText(f"crowd/{number:02}", "send_message", description="mail message"))
        index.add(ToolText("alone", "read", description="message code"))
        await vectors.settled()
        await vectors.prepare([["message code message mail"]], timeout=1)

        assert next(iter(index.nearest("message code message mail", limit=1))) == "alone"


@pytest.mark.parametrize("with_vectors", [{"a"}, {"b"}])
async def test_while_vectors_are_missing_no_tool_is_preferred_for_having_one(with_vectors: set[str]) -> None:
    model = Model()
    async with asyncio.timeout(5), open_vectors(model) as vectors:
        index = HybridIndex(SemanticIndex(vectors))
        for key in sorted(with_vectors):
            index.add(ToolText(key, "send_message", description="Send a message."))
        await vectors.settled()
        await vectors.prepare([["send a message"], ["send a file"]], timeout=1)
        model.gate.clear()
        for key in sorted({"a", "b"} - with_vectors):
            index.add(ToolText(key, "send_message", description="Send a message! "))

        fitting = {hit.key: hit.score for hit in index.search("send a message", min_score=0.0)}
        other = {hit.key: hit.score for hit in index.search("send a file", min_score=0.0)}

    assert fitting["a"] == pytest.approx(fitting["b"], abs=0.25)
    assert other.keys() == {"a", "b"}


def filled_finder(vectors: Vectors, strategy: str, **options: Any) -> Finder:
    finder = Finder(strategy=strategy, vectors=vectors, **options)
    for tool in TOOLS:
        finder.add(tool)
    return finder


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
async def test_what_tools_mean_is_learnt_later_and_then_finds_as_if_it_had_been_known_from_the_start(
    strategy: str,
) -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        finder = Finder(strategy=strategy)
        for tool in TOOLS:
            finder.add(tool)
        words = finder.search("umbrella")
        for _ in finder.deepen(vectors, TOOLS):
            assert finder.search("umbrella") == words
        fresh = filled_finder(vectors, strategy)
        await vectors.settled()

        for query in ("umbrella", "bar chart", "read a file"):
            assert await finder.find(query) == await fresh.find(query) != filled(Bm25Index()).search(query)
        finder.remove("weather/get_forecast")
        assert all(hit.key != "weather/get_forecast" for hit in await finder.find("umbrella"))


async def test_another_strategy_may_be_chosen_for_one_search() -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        finder = filled_finder(vectors, "hybrid")
        await vectors.settled()
        usual = await finder.find("read a file")
        by_words = await finder.find("read a file", strategy="bm25")
        by_meaning = await finder.find("read a file", strategy="semantic")

        assert by_words == filled(Bm25Index()).search("read a file")
        assert usual[0].score not in (by_words[0].score, by_meaning[0].score)
        with pytest.raises(ConfigError, match="regex"):
            finder.search("read a file", strategy="regex")


async def test_without_a_least_score_the_best_there_is_is_found() -> None:
    async with asyncio.timeout(5), open_vectors(Model()) as vectors:
        finder = filled_finder(vectors, "hybrid")
        await vectors.settled()

        assert len(await finder.find("transpose the saxophone part", min_score=0.0)) == len(TOOLS)
