"""Vectors on disk: a file for each model, which is appended to, and written anew when part of it is of no more use."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.search.arrays import np
from trunkline.storage.files import replace_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Halves = NDArray[np.float16]

DIGEST = 16
"""Bytes that stand for a text."""

_MARK = b"TLv1"
_HEAD = struct.Struct(f"<4sIII{DIGEST}s")
"""The mark, a checksum of what follows it, the day it was last of use, the count of numbers, the text's digest."""
_LARGEST = 16_384


@dataclass(slots=True)
class StoredVector:
    """A vector, half as precise as it was computed: that changes no ranking."""

    numbers: Halves
    day: int
    """When it was last of use, in days since 1970."""


class VectorFile:
    """The vectors of one model, by the digests of their texts."""

    def __init__(self, folder: Path, model: str) -> None:
        tag = hashlib.blake2b(model.encode(), digest_size=4).hexdigest()
        name = re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-.")[:60]
        self.path = folder / f"{name}-{tag}.vectors"

    def load(self) -> tuple[dict[bytes, StoredVector], bool]:
        """What the file has, and whether all of it could be read; a damaged record costs itself alone."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}, True
        found: dict[bytes, StoredVector] = {}
        whole = True
        at = 0
        while at < len(data):
            record = _read(data, at)
            if record is None:
                whole = False
                at = data.find(_MARK, at + 1)
                if at < 0:
                    break
                continue
            digest, kept, at = record
            found[digest] = kept
        return found, whole

    def append(self, vectors: Mapping[bytes, StoredVector]) -> None:
        """Add records, in one write: other processes may add theirs."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            file.write(_records(vectors))

    def rewrite(self, vectors: Mapping[bytes, StoredVector]) -> None:
        """Have these records and no others; whoever reads meanwhile sees the old file or the new one."""
        replace_file(self.path, _records(vectors), folder_mode=0o777)


def _records(vectors: Mapping[bytes, StoredVector]) -> bytes:
    parts: list[bytes] = []
    for digest, kept in vectors.items():
        numbers = kept.numbers.tobytes()
        head = _HEAD.pack(_MARK, 0, kept.day, len(kept.numbers), digest)
        checksum = zlib.crc32(numbers, zlib.crc32(head[8:]))
        parts += (_HEAD.pack(_MARK, checksum, kept.day, len(kept.numbers), digest), numbers)
    return b"".join(parts)


def _read(data: bytes, at: int) -> tuple[bytes, StoredVector, int] | None:
    """The record at a place, and where it ends; nothing if it is damaged."""
    start = at + _HEAD.size
    if start > len(data):
        return None
    mark, checksum, day, count, digest = _HEAD.unpack_from(data, at)
    end = start + 2 * count
    if mark != _MARK or not 0 < count <= _LARGEST or end > len(data) or zlib.crc32(data[at + 8 : end]) != checksum:
        return None
    return digest, StoredVector(np.frombuffer(data[start:end], dtype=np.float16), day), end
