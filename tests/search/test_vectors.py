"""Vectors that are computed in the background, and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.search.small_model import Model
from tests.search.tools import TOOLS, filled
from trunkline.search.semantic import SemanticIndex
from trunkline.search.vectors import VectorFile, Vectors, open_vectors
from trunkline.tasks import open_tasks

DAY = 86_400.0


async def computed(folder: Path, model: Model | None = None) -> int:
    """How many vectors had to be computed for all the tools."""
    model = model or Model()
    async with asyncio.timeout(5), open_vectors(model, folder, batch=3) as vectors:
        filled(SemanticIndex(vectors))
        await vectors.settled()
    return len(model.asked)


def file_in(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


async def test_vectors_are_kept_on_disk_for_each_model(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "vectors"

    assert await computed(folder) == len(TOOLS)
    assert await computed(folder) == 0
    assert await computed(folder, Model("other/model")) == len(TOOLS)
    assert await computed(folder) == 0
    assert len(list(folder.iterdir())) == 2


async def test_a_restart_changes_no_score(tmp_path: Path) -> None:
    found: list[dict[str, float]] = []
    for _ in range(2):
        async with asyncio.timeout(5), open_vectors(Model(), tmp_path) as vectors:
            index = filled(SemanticIndex(vectors))
            await vectors.settled()
            await vectors.prepare([["a letter about rain"]], timeout=1)
            found.append(index.nearest("a letter about rain", limit=20))

    assert found[0] == found[1]


@pytest.mark.parametrize("torn", [1, 40, 51])
async def test_a_torn_end_costs_only_the_last_vector(tmp_path: Path, torn: int) -> None:
    await computed(tmp_path)
    path = file_in(tmp_path)
    whole = path.read_bytes()
    size = len(whole) // len(TOOLS)
    path.write_bytes(whole[: -min(torn, size - 1)])

    assert await computed(tmp_path) == 1
    assert await computed(tmp_path) == 0
    assert len(path.read_bytes()) == len(whole)


@pytest.mark.parametrize("place", [0, 5, 13, 20, -1], ids=["mark", "checksum", "length", "digest", "numbers"])
async def test_a_damaged_record_costs_only_itself(tmp_path: Path, place: int) -> None:
    await computed(tmp_path)
    path = file_in(tmp_path)
    data = bytearray(path.read_bytes())
    size = len(data) // len(TOOLS)
    data[3 * size + place % size] ^= 0xFF
    path.write_bytes(bytes(data))

    assert await computed(tmp_path) == 1
    assert await computed(tmp_path) == 0


@pytest.mark.parametrize("nonsense", [b"", b"nonsense", b"TLv1" * 100])
async def test_a_file_of_something_else_is_started_anew(tmp_path: Path, nonsense: bytes) -> None:
    await computed(tmp_path)
    file_in(tmp_path).write_bytes(nonsense)

    assert await computed(tmp_path) == len(TOOLS)
    assert await computed(tmp_path) == 0


async def test_a_folder_that_cannot_be_written_costs_no_vector(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    assert await computed(blocked / "folder") == len(TOOLS)


async def test_vectors_of_tools_not_seen_for_long_are_dropped_and_those_seen_are_kept(tmp_path: Path) -> None:
    now = [1000 * DAY]
    for texts, asked in ((["old", "both"], 2), (["both"], 0), (["old", "both"], 1)):
        model = Model()
        async with asyncio.timeout(5), open_tasks() as tasks:
            vectors = Vectors(model, tasks, VectorFile(tmp_path, "words"), keep=90 * DAY, clock=lambda: now[0])
            await vectors.load()
            tasks.start(vectors.work())
            for text in texts:
                vectors.want(text, lambda vector: None)
            await vectors.settled()
        assert len(model.asked) == asked
        now[0] += 60 * DAY


async def test_no_more_vectors_are_kept_than_may_be() -> None:
    model = Model()
    async with asyncio.timeout(5), open_tasks() as tasks:
        vectors = Vectors(model, tasks, most=2, batch=1)
        tasks.start(vectors.work())
        for text in ("one", "two", "three", "three", "one"):
            vectors.want(text, lambda vector: None)
            await vectors.settled()

    assert model.asked == ["one", "two", "three", "one"]


async def test_a_query_is_embedded_once() -> None:
    model = Model()
    async with asyncio.timeout(5), open_vectors(model) as vectors:
        for _ in range(3):
            await vectors.prepare([["rain"], ["rain"]], timeout=1)

    assert model.asked == ["rain"]


async def test_equal_queries_at_the_same_time_are_embedded_once() -> None:
    model = Model()
    model.gate.clear()
    async with asyncio.timeout(5), open_vectors(model) as vectors, asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(vectors.prepare([["rain"]], timeout=1))
        await asyncio.sleep(0)
        model.gate.set()

    assert model.asked == ["rain"]


async def test_a_vector_that_came_too_late_is_there_the_next_time() -> None:
    model = Model()
    model.gate.clear()
    async with asyncio.timeout(5), open_vectors(model) as vectors:
        await vectors.prepare([["rain"]], timeout=0)
        before = vectors.known("rain")
        model.gate.set()
        await vectors.prepare([["rain"]], timeout=1)

        assert before is None
        assert vectors.known("rain") is not None
    assert model.asked == ["rain"]


@pytest.mark.parametrize(
    "answer",
    [[[1.0, 0.0]], [1.0, 2.0], [[1.0], [1.0, 2.0]], [[], []], [[float("nan")], [1.0]], "words"],
    ids=["too few", "flat", "ragged", "empty", "not a number", "text"],
)
async def test_a_model_that_gives_something_else_than_vectors_is_not_believed(answer: object) -> None:
    class Odd(Model):
        async def embed(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
            return answer  # pyright: ignore[reportReturnType]  # that is what is tested

    async with asyncio.timeout(5), open_vectors(Odd()) as vectors:
        await vectors.prepare([["one", "two"]], timeout=1)

        assert vectors.known("one") is None


async def test_a_model_that_changes_the_length_of_its_vectors_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    class Growing(Model):
        async def embed(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
            self.asked += texts
            return np.ones((len(texts), len(self.asked))).tolist()

    caplog.set_level("INFO", "trunkline")
    async with asyncio.timeout(5), open_vectors(Growing()) as vectors:
        await vectors.prepare([["one"]], timeout=1)
        await vectors.prepare([["two"]], timeout=1)

        assert vectors.known("two") is None
    assert "gave vectors of 2 numbers, and before of 1" in caplog.text
