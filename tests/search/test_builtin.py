"""The built-in model, and what is without it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from trunkline.errors import ConfigError
from trunkline.search.builtin import BuiltinEmbedder, builtin_embedder
from trunkline.search.minilm import MiniLM

WIDTH = 384


@pytest.fixture(scope="module")
def file() -> Path:
    """The installed model."""
    embedder = builtin_embedder()
    assert embedder is not None, "trunkline[semantic] is not installed"
    return embedder.file


def test_texts_beside_each_other_do_not_touch_each_other(file: Path) -> None:
    model = MiniLM(file)

    together = model.embed(["read a file", "mail", "send a mail"])

    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    for text, vector in zip(("read a file", "mail", "send a mail"), together, strict=True):
        assert np.allclose(model.embed([text])[0], vector, atol=1e-4)


def test_a_whole_and_its_parts_come_from_one_reading(file: Path) -> None:
    model = MiniLM(file)

    vectors = model.embed_parts(["read files", "send mails"])

    assert vectors.shape == (3, WIDTH)
    assert np.allclose(vectors[0], model.embed(["read files send mails"])[0], atol=1e-4)
    assert not np.allclose(vectors[1], vectors[2], rtol=0.0, atol=1e-3)


def test_a_part_behind_the_longest_text_counts_as_the_whole(file: Path) -> None:
    vectors = MiniLM(file, most_pieces=5).embed_parts(["read all files", "send mails"])

    assert np.allclose(vectors[2], vectors[0])


def test_a_query_is_read_without_its_commonest_words_unless_it_has_no_others(file: Path) -> None:
    model = MiniLM(file)

    assert np.allclose(model.embed_parts(["Send a mail to me"]), model.embed_parts(["send mail"]), atol=1e-4)
    assert np.allclose(model.embed_parts(["is it for me"])[0], model.embed(["is it for me"])[0], atol=1e-4)
    assert not np.allclose(model.embed(["send a mail"])[0], model.embed(["send mail"])[0], rtol=0.0, atol=1e-3)


async def test_a_query_passes_the_tools(file: Path) -> None:
    embedder = BuiltinEmbedder(file)
    order: list[str] = []

    async def embed(text: str, *, query: bool) -> None:
        await embedder.embed([text], query=query)
        order.append(text)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(embed("send a mail", query=False))
        group.create_task(embed("read a file", query=True))

    assert order.index("read a file") < 25


async def test_the_event_loop_goes_on_while_the_model_works(file: Path) -> None:
    threads: set[int] = set()

    class Watched(BuiltinEmbedder):
        def _load(self) -> MiniLM:
            threads.add(threading.get_ident())
            return super()._load()

    embedder = Watched(file)
    await embedder.embed(["mail"], query=True)
    await embedder.embed(["mail"], query=False)

    assert threading.get_ident() not in threads
    assert len(threads) == 2


async def test_all_that_embed_in_a_process_share_the_loaded_model() -> None:
    models: list[MiniLM] = []

    class Watched(BuiltinEmbedder):
        def _load(self) -> MiniLM:
            models.append(super()._load())
            return models[-1]

    for _ in range(2):
        embedder = builtin_embedder()
        assert embedder is not None
        await Watched(embedder.file).embed(["mail"], query=True)

    assert models[0] is models[1]


def test_a_file_that_is_not_there_is_no_model(tmp_path: Path) -> None:
    assert builtin_embedder(tmp_path / "model.onnx") is None


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    changed = tmp_path / "model.onnx"
    changed.write_bytes(b"something else")

    with pytest.raises(ConfigError, match="not the model"):
        MiniLM(changed, digest="0" * 64)


async def test_the_installed_model_gives_the_vectors_of_the_original() -> None:
    embedder = builtin_embedder()
    assert embedder is not None

    vector = cast("list[float]", (await embedder.embed(["hello world"], query=True))[0].tolist())

    # As PyTorch computes them; weights of eight bits differ a little.
    assert vector[:5] == pytest.approx([-0.03447726, 0.03102321, 0.00673497, 0.02610898, -0.03936195], abs=1e-2)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from pathlib import Path
from trunkline.search.builtin import builtin_embedder
from trunkline.search.finder import Finder
from trunkline.cli.bench import rank_file
from trunkline.search.text import ToolText
from trunkline.errors import ConfigError

assert builtin_embedder() is None
finder = Finder()
finder.add(ToolText("a", "read_file"))
assert finder.search("read file")[0].key == "a"
tools, queries, out = map(Path, sys.argv[1:])
assert rank_file(tools, queries, "hybrid", 10, out) == 1
for attempt in ("rank_file(tools, queries, 'semantic', 10, out)", "import trunkline.search.vectors"):
    try:
        exec(attempt)
    except ConfigError as error:
        assert "pip install 'trunkline[semantic]'" in str(error), error
    else:
        raise AssertionError(attempt)
"""


def test_without_the_extra_words_are_searched_and_vectors_are_refused_with_a_hint(tmp_path: Path) -> None:
    tools, queries = tmp_path / "tools", tmp_path / "queries"
    tools.write_text('{"key": "a", "name": "read_file"}\n')
    queries.write_text('{"id": "1", "query": "read a file"}\n')

    subprocess.run([sys.executable, "-c", WITHOUT_NUMPY, tools, queries, tmp_path / "out"], check=True, timeout=60)


def test_numpy_is_loaded_for_one_core_and_programs_do_not_inherit_that() -> None:
    script = "import os; from trunkline.search.arrays import np; assert 'OMP_NUM_THREADS' not in os.environ"

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env={})


def test_nothing_heavy_is_imported_before_vectors_are_asked_for() -> None:
    script = (
        "import sys, trunkline.search.finder, trunkline.cli.bench;"
        "from trunkline.search.builtin import builtin_embedder; builtin_embedder();"
        "assert 'numpy' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
