"""numpy, for those who installed the extra, held to one core so that it does not fight the gateway."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from trunkline.errors import ConfigError

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@contextmanager
def _one_core() -> Generator[None]:
    # These are read while numpy is loaded. Programs that we start later must not inherit them.
    added = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


try:
    with _one_core():
        import numpy as np
except ModuleNotFoundError as error:
    raise ConfigError("Vectors need numpy.", hint="Run `pip install 'trunkline[semantic]'`.") from error

if TYPE_CHECKING:
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float32]"


def unit(vectors: Floats) -> Floats:
    """The same directions, each of length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
