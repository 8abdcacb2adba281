"""How crowded the place of each tool is among the others: a tool with many that are alike is near to every query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.search.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_NEIGHBOURS = 10
_BLOCK = 128


def crowding(matrix: Floats, rows: NDArray[np.intp]) -> Floats:
    """The mean cosine of these rows to their nearest neighbours, the row itself left out."""
    count = min(_NEIGHBOURS, len(matrix) - 1)
    found = np.zeros(len(rows), dtype=np.float32)
    if count < 1:
        return found
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        cosines = matrix[block] @ matrix.T
        cosines[np.arange(len(block)), block] = -1.0
        nearest = np.partition(cosines, -count, axis=1)[:, -count:]
        found[start : start + len(block)] = nearest.mean(axis=1)
    return found
