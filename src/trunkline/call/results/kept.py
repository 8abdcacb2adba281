"""Where large results are kept: for their owner alone, for a while, in memory or in files of ours."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trunkline import workers
from trunkline.config.options import ResultsSection
from trunkline.identity import Scope
from trunkline.storage.files import write_private

MOST = 1_000
"""Results of one user that are kept, however small they are."""
HANDLE_BYTES = 12
"""Random bytes of a handle: it cannot be guessed, and a model can copy it."""


@dataclass(frozen=True, slots=True)
class Document:
    """One part of a result: JSON or text, here or in a file."""

    json: bool
    size: int
    data: bytes = b""
    file: Path | None = None

    def load(self) -> bytes:
        """All of it; to be called in a thread. Raises `OSError` when its file is gone."""
        return self.file.read_bytes() if self.file is not None else self.data


Owner = tuple[str, str, str]


def owner_of(scope: Scope) -> Owner:
    """Whose results are whose: a user's, in each thread of theirs."""
    return scope.app, scope.person, scope.thread


@dataclass(slots=True)
class KeptResult:
    """A result that was kept, by its parts: `structured`, `text` or both; the first is read unless another is named."""

    handle: str
    owner: Owner
    user: str
    server: str
    """The server or group that said it; empty for what is our own."""
    tool: str
    """The tool, as its server calls it."""
    documents: dict[str, Document]
    tokens: int
    until: float
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(document.size for document in self.documents.values())


class KeptResults:
    """Every result that is kept, the oldest first."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._clock = _Folder(home / "results"), clock
        self._config = ResultsSection()
        self._kept: OrderedDict[str, KeptResult] = OrderedDict()
        self._users: dict[str, OrderedDict[str, KeptResult]] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0

    def configure(self, config: ResultsSection) -> None:
        """Keep as much as another configuration says, from now on."""
        self._config = config

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of all that is kept."""
        return self._size

    def fits(self, size: int) -> bool:
        """Whether a result of so many bytes can be kept at all."""
        return size <= min(self._config.user_bytes, self._config.max_bytes)

    def write(self, data: bytes, *, json: bool) -> Document:
        """A document of ours, in a file where it is large; to be called in a thread."""
        if len(data) <= self._config.memory_bytes:
            return Document(json, len(data), data)
        return Document(json, len(data), file=self._folder.write(data))

    def add(self, scope: Scope, server: str, tool: str, documents: dict[str, Document], tokens: int) -> KeptResult:
        """Keep a result; what is oldest goes, where there is too much."""
        ttl = self._config.ttl
        kept = KeptResult(
            secrets.token_urlsafe(HANDLE_BYTES),
            owner_of(scope),
            scope.user,
            server,
            tool,
            documents,
            tokens,
            self._clock() + ttl,
        )
        self._kept[kept.handle] = kept
        self._users.setdefault(kept.user, OrderedDict())[kept.handle] = kept
        self._sizes[kept.user] = self._sizes.get(kept.user, 0) + kept.size
        self._size += kept.size
        kept.timer = asyncio.get_running_loop().call_later(ttl, self._drop, kept)
        self._make_room(kept.user)
        return kept

    def find(self, handle: str, scope: Scope) -> KeptResult | None:
        """What a handle means to a caller; another's is as unknown as one that never was."""
        kept = self._kept.get(handle)
        if kept is None or kept.owner != owner_of(scope) or kept.until <= self._clock():
            return None
        return kept

    def seconds_left(self, kept: KeptResult) -> float:
        """How long it will be kept."""
        return max(0.0, kept.until - self._clock())

    def forget_user(self, user: str) -> None:
        """Somebody is gone, and what was kept for them is, too."""
        if user in self._users:
            for kept in list(self._users[user].values()):
                self._drop(kept)

    def forget(self) -> None:
        """Keep nothing any longer."""
        for kept in list(self._kept.values()):
            self._drop(kept)

    async def sweep(self) -> None:
        """Delete what processes left that are no more."""
        if self._folder.is_there():
            await workers.run(self._folder.sweep)

    def close(self) -> None:
        """Forget everything, and leave no file."""
        self.forget()
        self._folder.remove()

    def _make_room(self, user: str) -> None:
        own = self._users[user]
        while len(own) > MOST or self._sizes[user] > self._config.user_bytes:
            self._drop(next(iter(own.values())))
        while self._size > self._config.max_bytes:
            # Whoever has most gives first: nobody loses theirs to one who fills the room.
            most = max(self._sizes, key=lambda one: self._sizes[one])
            self._drop(next(iter(self._users[most].values())))

    def _drop(self, kept: KeptResult) -> None:
        if self._kept.pop(kept.handle, None) is None:
            return
        own = self._users[kept.user]
        del own[kept.handle]
        self._size -= kept.size
        self._sizes[kept.user] -= kept.size
        if not own:
            del self._users[kept.user], self._sizes[kept.user]
        if kept.timer is not None:
            kept.timer.cancel()
        discard(kept.documents)


def discard(documents: dict[str, Document]) -> None:
    """Delete the files of documents that nobody keeps."""
    for document in documents.values():
        if document.file is not None:
            document.file.unlink(missing_ok=True)


class _Folder:
    """A folder of this process's own below a shared one: a lock says that its process lives."""

    def __init__(self, shared: Path) -> None:
        self._shared = shared
        self._own: Path | None = None
        self._lock = -1

    def write(self, data: bytes) -> Path:
        """A new file, for its owner alone."""
        if self._own is None:
            self._own = self._made()
        path = self._own / hashlib.sha256(secrets.token_bytes(16)).hexdigest()[:32]
        write_private(path, data)
        return path

    def is_there(self) -> bool:
        """Whether anybody ever kept something."""
        return self._shared.exists()

    def sweep(self) -> None:
        """Remove the folders of processes that are gone."""
        for folder in self._others():
            try:
                lock = os.open(folder / _LOCK, os.O_RDONLY)
            except OSError:
                continue  # somebody is making it just now, or has removed it
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                pass  # its process lives
            finally:
                os.close(lock)

    def remove(self) -> None:
        """Leave nothing of ours."""
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._lock)
            self._own, self._lock = None, -1

    def _others(self) -> Iterator[Path]:
        try:
            yield from [path for path in self._shared.iterdir() if path.is_dir() and path != self._own]
        except OSError:
            return

    def _made(self) -> Path:
        self._shared.mkdir(parents=True, exist_ok=True, mode=0o700)
        making = self._shared.parent / f".results-{secrets.token_hex(8)}"
        making.mkdir(mode=0o700)
        self._lock = os.open(making / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return making.rename(self._shared / secrets.token_hex(8))  # with its lock, so that nobody sweeps it


_LOCK = "lock"
