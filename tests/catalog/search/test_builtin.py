"""The built-in model, and what is without it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from trunkline.catalog.search.builtin import BuiltinEmbedder, builtin_embedder
from trunkline.catalog.search.minilm import MiniLM

WIDTH = 24
needs_weights = pytest.mark.skipif(builtin_embedder() is None, reason="the model's package is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of the same make, with small weights of chance."""
    words = ["[UNK]", "[CLS]", "[SEP]", "read", "a", "file", "send", "mail"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    shapes = {
        "embeddings.word_embeddings.weight": (len(words), WIDTH),
        "embeddings.position_embeddings.weight": (128, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for layer in range(6):
        sizes = {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        sizes |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (48, WIDTH)}
        for name, size in (sizes | {"output.dense": (WIDTH, 48)}).items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = size
            shapes[f"encoder.layer.{layer}.{name}.bias"] = size[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{layer}.{name}.weight"] = (WIDTH,)
            shapes[f"encoder.layer.{layer}.{name}.bias"] = (WIDTH,)
    chance = np.random.default_rng(7)
    arrays = {name: (0.3 * chance.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    for name, array in arrays.items():
        array += name.endswith("LayerNorm.weight")
    head: dict[str, Any] = {}
    at = 0
    for name, array in arrays.items():
        head[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": (at, at := at + array.nbytes)}
    text = msgspec.json.encode(head)
    data = b"".join(array.tobytes() for array in arrays.values())
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return tmp_path


def test_texts_beside_each_other_do_not_touch_each_other(folder: Path) -> None:
    model = MiniLM(folder)

    together = model.embed(["read a file", "mail", "send a mail"])

    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    for text, vector in zip(("read a file", "mail", "send a mail"), together, strict=True):
        assert np.allclose(model.embed([text])[0], vector, atol=1e-4)


def test_a_whole_and_its_parts_come_from_one_reading(folder: Path) -> None:
    model = MiniLM(folder)

    vectors = model.embed_parts(["read a file", "send a mail"])

    assert vectors.shape == (3, WIDTH)
    assert np.allclose(vectors[0], model.embed(["read a file send a mail"])[0], atol=1e-4)
    assert not np.allclose(vectors[1], vectors[2], rtol=0.0, atol=1e-3)


def test_a_part_behind_the_longest_text_counts_as_the_whole(folder: Path) -> None:
    vectors = MiniLM(folder, most_pieces=5).embed_parts(["read a file", "send a mail"])

    assert np.allclose(vectors[2], vectors[0])


async def test_a_query_passes_the_tools(folder: Path) -> None:
    embedder = BuiltinEmbedder(folder)
    order: list[str] = []

    async def embed(text: str, *, query: bool) -> None:
        await embedder.embed([text], query=query)
        order.append(text)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(embed("send a mail", query=False))
        group.create_task(embed("read a file", query=True))

    assert order.index("read a file") < 25


async def test_the_event_loop_goes_on_while_the_model_works(folder: Path) -> None:
    threads: set[int] = set()

    class Watched(BuiltinEmbedder):
        def _load(self) -> MiniLM:
            threads.add(threading.get_ident())
            return super()._load()

    embedder = Watched(folder)
    await embedder.embed(["mail"], query=True)
    await embedder.embed(["mail"], query=False)

    assert threading.get_ident() not in threads
    assert len(threads) == 2


def test_a_folder_without_weights_is_no_model(tmp_path: Path) -> None:
    assert builtin_embedder(tmp_path) is None


@needs_weights
async def test_the_installed_model_gives_the_vectors_of_the_original() -> None:
    embedder = builtin_embedder()
    assert embedder is not None

    vector = cast("list[float]", (await embedder.embed(["hello world"], query=True))[0].tolist())

    # As PyTorch computes them.
    assert vector[:5] == pytest.approx([-0.03447726, 0.03102321, 0.00673497, 0.02610898, -0.03936195], abs=5e-4)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from pathlib import Path
from trunkline.catalog.search.builtin import builtin_embedder
from trunkline.catalog.search.finder import Finder
from trunkline.catalog.search.measure import rank_file
from trunkline.catalog.search.text import ToolText
from trunkline.errors import ConfigError

assert builtin_embedder() is None
finder = Finder()
finder.add(ToolText("a", "read_file"))
assert finder.search("read file")[0].key == "a"
tools, queries, out = map(Path, sys.argv[1:])
assert rank_file(tools, queries, "hybrid", 10, out) == 1
for attempt in ("rank_file(tools, queries, 'semantic', 10, out)", "import trunkline.catalog.search.vectors"):
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
    script = "import os; from trunkline.catalog.search.arrays import np; assert 'OMP_NUM_THREADS' not in os.environ"

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env={})


def test_nothing_heavy_is_imported_before_vectors_are_asked_for() -> None:
    script = (
        "import sys, trunkline.catalog.search.finder, trunkline.catalog.search.measure;"
        "from trunkline.catalog.search.builtin import builtin_embedder; builtin_embedder();"
        "assert 'numpy' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
