"""MiniLM, run by onnxruntime: six layers of a small BERT, which turn a text into 384 numbers."""

from __future__ import annotations

import hashlib
import importlib
import os
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.errors import ConfigError
from trunkline.search.arrays import np
from trunkline.search.wordpiece import WordPiece

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_PIECES = Path(__file__).with_name("pieces.txt")
"""The vocabulary that the model was made with: that of BERT, lower case (Apache-2.0)."""


class MiniLM:
    """The model of an ONNX file; with a `digest`, of no other file."""

    def __init__(self, file: Path, *, digest: str = "", most_pieces: int = 128) -> None:
        onnxruntime: Any = importlib.import_module("onnxruntime")  # it comes without types
        if digest and hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise ConfigError(f"{file} is not the model that it should be.", hint="Install trunkline[semantic] anew.")
        options = onnxruntime.SessionOptions()
        # Somebody waits for a query. Tools, for which nobody does, take only every other moment: see `pause`.
        options.intra_op_num_threads = min(2, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        self._session: Any = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self._pieces = WordPiece.load(_PIECES)
        self._most = most_pieces

    def embed(self, texts: Sequence[str], *, pause: Callable[[], object] = lambda: None) -> Floats:
        """One vector of length 1 for each text; `pause` is called before each, and may wait."""
        means: list[Floats] = []
        for text in texts:
            pause()
            means.append(self._run(self._pieces.encode(text, most=self._most)).mean(axis=0))
        return _unit(np.stack(means))

    def embed_parts(self, parts: Sequence[str]) -> Floats:
        """A vector of length 1 for the query that the parts make, then one for each part.

        The whole is read once, without its commonest words, and a part is the mean of its pieces: half the work, and no
        worse.
        """
        pieces: list[int] = []
        spans: list[slice] = []
        for part in parts:
            start = len(pieces)
            pieces += self._pieces.pieces(part, most=self._most, without=_COMMONEST)
            pieces = pieces[: self._most - 2]
            # The marks of start and end are put around them below.
            spans.append(slice(1 + start, 1 + len(pieces)))
        state = self._run(self._pieces.mark(pieces))
        # What lies behind the longest text that can be read counts as the whole.
        means = [state[span if span.start < span.stop else slice(None)].mean(axis=0) for span in spans]
        return _unit(np.stack([state.mean(axis=0), *means]))

    def _run(self, pieces: list[int]) -> Floats:
        """What the last layer says of each piece. Texts are run one by one: together they gain nothing on one core."""
        numbers = np.array([pieces], dtype=np.int64)
        given = {
            "input_ids": numbers,
            "attention_mask": np.ones_like(numbers),
            "token_type_ids": np.zeros_like(numbers),
        }
        return self._session.run(None, given)[0][0]


def _unit(vectors: Floats) -> Floats:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


_COMMON_WORDS = "a an and are at be by for from i in is it me my of on that the this to with you your"
_COMMONEST = frozenset((*_COMMON_WORDS.split(), *string.punctuation))
"""A third of a usual query, with the signs. Rarer words of this kind, as `before` or `without`, do matter."""
