"""The audit: lines of JSON, each with a digest over itself and the one before, so that no change goes unseen."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import hashlib
import itertools
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from trunkline.config.records import AuditSection
from trunkline.errors import AuditError, ConfigError
from trunkline.telemetry.audit_chain import BEGIN, MARK, files_in, last_of, link, read_mark
from trunkline.telemetry.logs import utc_time
from trunkline.telemetry.record import ASKED, MOST_COMMON, CallRecord, Outcome
from trunkline.workers import in_thread

log = logging.getLogger("trunkline")

PAUSE = 0.05
"""Seconds that lines wait to be written together, where calls do not wait for them."""
WAITING = 10_000
"""Lines that wait while the disk takes none; beyond it they are lost, and their number is written."""
AGAIN = 1.0
"""Seconds between two tries to write, while it fails."""
REFUSALS = 50
"""Refused requests of one second that get a line each; further ones are counted."""
TOGETHER = 200
"""Lines that are written at once."""


def audit_folder(config: AuditSection, home: Path) -> Path:
    """Where the files are."""
    return Path(config.folder).expanduser() if config.folder else home / "audit"


class Audit:
    """Writes one chain into the files of a folder. Open it once; `close` writes what waits."""

    def __init__(
        self, config: AuditSection, folder: Path, key: bytes, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.config, self.folder, self._clock = config, folder, clock
        self._keyed = hashlib.blake2b(digest_size=16, key=key)
        self._waiting: deque[bytes] = deque()
        self._known: dict[int, _Words] = {}
        self._lost = 0
        self._later: asyncio.TimerHandle | None = None
        self._second, self._refused = 0, 0
        self.trouble = ""
        """Why it cannot be written; empty while it can be."""
        self.lines = self.failures = 0
        self._number, self._hash, self._size = 0, BEGIN, 0
        self._file = self._mark = self._lock = -1
        self._strict = config.on_failure == "refuse"

    # Its lifetime.

    def open(self) -> None:
        """Go on where the chain ended; `ConfigError` where another process writes into the folder."""
        self._queue("start", self._clock(), {"pid": os.getpid()})
        self.flush()

    def close(self) -> None:
        """Write what waits, and let go."""
        if self._file >= 0:
            self._queue("stop", self._clock(), {"pid": os.getpid()})
            self.flush()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        for handle in (self._file, self._mark, self._lock):
            if handle >= 0:
                os.close(handle)
        self._file = self._mark = self._lock = -1

    def _make_ready(self) -> None:
        """Have a file that lines can be written to."""
        if self._lock < 0:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = self._take_lock()
        if self._mark < 0:
            self._mark = os.open(self.folder / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if self._file >= 0:
            if self._size >= self.config.file_bytes:
                self._begin_file()
            return
        files, known = files_in(self.folder), read_mark(self.folder)
        if not files:
            self._begin_file()
            return
        last = last_of(files[-1])
        if known is not None and known[0] > last.number:
            log.error("The audit in %s has fewer lines than it had: see `trunkline audit verify`.", self.folder)
        file = os.open(files[-1], os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if last.torn:
            os.ftruncate(file, last.size)
            self._queue("torn", self._clock(), {"bytes": last.torn})
        self._number, self._hash = (last.number, last.hash) if last.number or known is None else known
        self._file, self._size = file, last.size

    def _take_lock(self) -> int:
        lock = os.open(self.folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            hint = "Give each process a folder of its own: [audit] `folder`."
            raise ConfigError(f"Another process writes the audit in {self.folder}.", hint=hint) from None
        return lock

    # Lines.

    def digest(self, arguments: bytes) -> str:
        """What stands for arguments: equal ones have equal digests here, and nobody can guess them by trying."""
        keyed = self._keyed.copy()
        keyed.update(arguments)
        return keyed.hexdigest()

    def admit(self) -> None:
        """Refuse a call whose line could not be written, where that is wanted."""
        if self.trouble and self._strict:
            raise AuditError("The audit cannot be written, so that no call is let through.", hint="See the log.")

    def require(self) -> None:
        """The same for a call of a tool that is marked, whatever the options say of others."""
        if self.trouble:
            raise AuditError("The audit cannot be written, and this tool may not be called without it.")

    def read(self, ended: Sequence[CallRecord]) -> None:
        """Write a line for each call that ended."""
        lines: list[bytes] = []
        for record in ended:
            words = self._known.get(record.alike) or self._learn(record)
            if ASKED in map(_what, record.path):
                for what, _, when in record.path:
                    if what == ASKED:
                        lines.append(_line(record, words, "asked", when))
            lines.append(_line(record, words, record.outcome, record.seconds))
        self._wait(lines)
        self._settle()

    def _learn(self, record: CallRecord) -> _Words:
        words = _words(record)
        if record.alike:
            if len(self._known) >= MOST_COMMON:
                self._known.clear()
            self._known[record.alike] = words
        return words

    def add(self, kind: str, said: Mapping[str, Any], *, who: Mapping[str, str] | None = None) -> None:
        """Write a line about something else than a call."""
        self._queue(kind, self._clock(), {**({"who": dict(who)} if who else {}), **said})
        self._settle()

    def refused(self, said: Mapping[str, Any], who: Mapping[str, str] | None = None) -> None:
        """Write that a request was refused; of very many in a second only the number."""
        second = int(self._clock())
        if second != self._second:
            if self._refused > REFUSALS:
                self._queue("refusal", self._clock(), {"requests": self._refused - REFUSALS})
            self._second, self._refused = second, 0
        self._refused += 1
        if self._refused <= REFUSALS:
            self.add("refusal", said, who=who)

    def _queue(self, kind: str, when: float, said: Mapping[str, Any]) -> None:
        self._wait((_members({"time": utc_time(when), "kind": kind, **said}),))

    def _wait(self, bodies: Sequence[bytes]) -> None:
        self._waiting.extend(bodies)
        for _ in range(len(self._waiting) - WAITING):
            self._waiting.popleft()
            self._lost += 1

    def _settle(self) -> None:
        """Have what waits written: at once where calls depend on it, else in a moment."""
        if self.trouble:
            return  # it is tried again by itself
        if self._strict or len(self._waiting) >= TOGETHER:
            self.flush()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(PAUSE, self.flush)

    # Files.

    def flush(self) -> None:
        """Write what waits, in one go; what cannot be written waits on."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if not self._waiting:
            return
        try:
            self._make_ready()
            if self._lost:
                self._write([_members({"time": utc_time(self._clock()), "kind": "lost", "lines": self._lost})])
                self._lost = 0
            while self._waiting:
                part = list(itertools.islice(self._waiting, TOGETHER))
                self._write(part)
                for _ in part:
                    self._waiting.popleft()
        except OSError as error:
            self._fail(error)
            return
        if self.trouble:
            log.error("The audit can be written again.")
            self.trouble = ""

    def _write(self, bodies: Sequence[bytes]) -> None:
        """Append lines; all of them or none, so that no line is left half."""
        whole, number, hash = link(bodies, self._number, self._hash)
        written = 0
        try:
            while written < len(whole):
                written += os.write(self._file, whole[written:])
        except OSError:
            if written:
                os.ftruncate(self._file, self._size)
            raise
        self._number, self._hash, self._size = number, hash, self._size + len(whole)
        self.lines += len(bodies)
        self._note_end()

    def _fail(self, error: OSError) -> None:
        self.failures += 1
        if not self.trouble:
            what = "no call is let through" if self._strict else "calls go on, and lines wait in memory"
            log.error("The audit in %s cannot be written (%s): %s.", self.folder, error.strerror or error, what)
        self.trouble = error.strerror or str(error)
        self._later = asyncio.get_running_loop().call_later(AGAIN, self.flush)

    def _begin_file(self) -> None:
        """Begin the next file; its first line says where the chain was."""
        path = self.folder / f"audit-{self._number + 1:012d}.jsonl"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        before, self._file, self._size = (self._file, self._size), file, 0
        try:
            self._write([_members({"time": utc_time(self._clock()), "kind": "file", "after": self._hash})])
        except OSError:
            os.close(file)
            path.unlink()
            self._file, self._size = before
            raise
        if before[0] >= 0:
            os.close(before[0])

    def _note_end(self) -> None:
        """Say beside the lines where the chain ends, so that lines missing at its end are found as well."""
        with suppress(OSError):  # a mark that stands too early is no harm
            os.pwrite(self._mark, b"%016d %s\n" % (self._number, self._hash.encode()), 0)

    # Retention.

    async def sweep(self) -> None:
        """Now and then: what was written reaches the disk, and files that are too old or too much go."""
        synced = 0
        while True:
            await asyncio.sleep(AGAIN)
            if self._file < 0:
                continue
            if self.lines != synced:
                synced = self.lines
                await in_thread(functools.partial(_sync, os.dup(self._file)))
            self.retain()

    def retain(self) -> None:
        """Remove old files, once the chain says so: what is left still proves that nothing else is missing."""
        files = files_in(self.folder)[:-1]
        sizes = {path: path.stat() for path in files}
        total = sum(stat.st_size for stat in sizes.values()) + self._size
        oldest = self._clock() - self.config.days * 86400
        gone: list[Path] = []
        for path in files:
            if sizes[path].st_mtime >= oldest and total <= self.config.max_bytes:
                break
            total -= sizes[path].st_size
            gone.append(path)
        if not gone or self.trouble:
            return
        last = last_of(gone[-1])
        self.add("retention", {"files": len(gone), "until": last.number, "until_hash": last.hash})
        self.flush()
        if not self.trouble:
            for path in gone:
                path.unlink()


def _sync(file: int) -> None:
    try:
        with suppress(OSError):  # the next line that cannot be written says so
            os.fdatasync(file)
    finally:
        os.close(file)


_Words = tuple[str, str]
"""What all lines about calls of one caller to one tool say: before how the call ended, and behind it."""
_what = itemgetter(0)


def _words(record: CallRecord) -> _Words:
    who = {"user": record.user, "key": record.key, "thread": record.thread, "client": record.client}
    said = {
        "who": {name: value for name, value in who.items() if value},
        "method": record.method,
        "name": record.name,
        "server": record.server,
    }
    further = {"tool": record.tool, "profile": record.profile, "program": record.program}
    told = {name: value for name, value in further.items() if value}
    return _members(said).decode(), f",{_members(told).decode()}" if told else ""


def _line(record: CallRecord, words: _Words, outcome: Outcome, seconds: float) -> bytes:
    """A call in the audit: who, what, when, how it ended, how long it took, and a digest of its arguments.

    Only what differs from call to call is written anew. Nothing of that has letters that JSON writes otherwise, but
    the words of an error.
    """
    before, after = words
    if record.code or record.error:
        told = {"code": record.code, "error": record.error}
        after += f",{_members({name: value for name, value in told.items() if value}).decode()}"
    if record.digest:
        after += f',"arguments":"{record.digest}"'
    if record.trace:
        after += f',"trace":"{record.trace}"'
    kind = "question" if outcome == "asked" else "call"
    return (
        f'"time":"{utc_time(record.time + seconds)}","kind":"{kind}","call":"{record.id}",{before},'
        f'"outcome":"{outcome}","seconds":{seconds:.6f}{after}'
    ).encode()


def _members(said: Mapping[str, Any]) -> bytes:
    """The members of an object, without what encloses them."""
    return _ENCODER.encode(said)[1:-1]


_ENCODER = msgspec.json.Encoder()
