"""One registry as a client sees it: asked when need be, and remembered when it is away."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trunkline.errors import UpstreamError
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.options import MCPRegistryClientConfig, RegistryConfig
from trunkline.install.marketplace.ranking import words_of
from trunkline.install.marketplace.remote import Registry, RegistryAnswer
from trunkline.install.marketplace.server_json import NAME, Page, read_page, write_page
from trunkline.storage.files import try_replace_file

FORMAT = 1
MOST_ANSWERS = 64
"""Answers of one registry that are kept."""


@dataclass(frozen=True)
class CachedAnswer:
    """One answer."""

    content: bytes
    fetched: float
    """When, in seconds since 1970."""
    mark: str = ""
    """What to ask with whether it has changed: an `ETag`, or a time."""


class AnswerCache:
    """The answers of one registry, each under what was asked; files of anybody else are not used."""

    def __init__(self, home: Path, registry: str) -> None:
        self._folder = home / "registries" / _digest(registry)

    def load(self, asked: str) -> CachedAnswer | None:
        """The answer, however old it is."""
        return _read(self._path(asked), asked)

    def save(self, asked: str, kept: CachedAnswer) -> None:
        """Keep an answer; the oldest ones leave. A full or read-only disk costs the next answer time, nothing else."""
        text = kept.content.decode("utf-8", "replace")
        document = {"format": FORMAT, "asked": asked, "fetched": kept.fetched, "mark": kept.mark, "content": text}
        if try_replace_file(self._path(asked), json.dumps(document).encode()):
            self._forget_oldest()

    def all(self) -> Iterator[CachedAnswer]:
        """Every answer, the newest first."""
        found = [kept for path in self._files() if (kept := _read(path)) is not None]
        return iter(sorted(found, key=lambda kept: -kept.fetched))

    def clear(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, asked: str) -> Path:
        return self._folder / f"{_digest(asked)}.json"

    def _files(self) -> list[Path]:
        return list(self._folder.glob("*.json"))

    def _forget_oldest(self) -> None:
        files = self._files()
        for path in sorted(files, key=_age)[: max(0, len(files) - MOST_ANSWERS)]:
            path.unlink(missing_ok=True)


def _read(path: Path, asked: str | None = None) -> CachedAnswer | None:
    try:
        document: Any = json.loads(path.read_bytes())
        if document["format"] != FORMAT or (asked is not None and document["asked"] != asked):
            return None
        return CachedAnswer(document["content"].encode(), float(document["fetched"]), str(document["mark"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


MOST_QUESTIONS = 3
"""Words of a query that a registry is asked for; it looks for each as a part of names."""
EVERYTHING = "everything"
NOTHING = b'{"servers":[]}'


@dataclass(frozen=True)
class RegistryContent:
    """What a registry has to say, from itself or from what is kept of it."""

    entries: tuple[RegistryEntry, ...] = ()
    dropped: int = 0
    unreached: str = ""
    """Why it may have more to say."""


class Source:
    """A registry and what is kept of it."""

    def __init__(
        self,
        config: RegistryConfig,
        client: MCPRegistryClientConfig,
        home: Path | None,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self.offline = False
        self._timeout = config.timeout or client.timeout
        self._registry = Registry(config, timeout=self._timeout, user_agent=client.user_agent)
        self._patience = client.patience
        self._ttl = client.default_cache_ttl if config.cache_ttl is None else config.cache_ttl
        self._clock = clock
        # With another token a registry may say something else.
        self._kept = AnswerCache(home, f"{config.url}\0{config.auth_token}") if home else None
        self._whole = config.type == "custom" if config.whole is None else config.whole

    async def search(self, query: str) -> RegistryContent:
        """What fits the words of a query, and everything else that is known."""
        words = list(dict.fromkeys(word for word in query.lower().split() if len(word) > 1))[:MOST_QUESTIONS]
        # The beginnings of words are enough to tell what need not be read; `queries` is found by `query` too.
        signs = [word[:4].encode() for word in words_of(query)]
        if self._whole and not self._fresh(EVERYTHING):
            return self._with_kept(await self._asked(self._copy, self._timeout), signs)
        if self._whole or not words or self._fresh(EVERYTHING):
            return self._with_kept(RegistryContent(), signs)
        return self._with_kept(await self._asked(lambda: self._search(words), self._patience), signs)

    async def entry(self, name: str, version: str) -> RegistryContent:
        """One server, in one version."""
        if not NAME.fullmatch(name) or not re.fullmatch(r"(?!\.\.?$)[\x21-\x7e]{1,255}", version):
            return RegistryContent()
        known, fetched = self._find_kept(name) if version == "latest" else ((), 0.0)
        if known and self._clock() - fetched < self._ttl:
            return RegistryContent(known)
        found = await self._asked(lambda: self._version(name, version), self._patience)
        return replace(found, entries=found.entries or known) if found.unreached else found

    async def versions(self, name: str) -> RegistryContent:
        """Every version of a server, the newest first."""
        if not NAME.fullmatch(name):
            return RegistryContent()
        return await self._asked(lambda: self._versions(name), self._patience)

    async def known(self) -> RegistryContent:
        """All that is known of it; one that is to be read whole is, unless that was done lately."""
        if self._whole and not self._fresh(EVERYTHING):
            return self._with_kept(await self._asked(self._copy, self._timeout))
        return self._with_kept(RegistryContent())

    async def refresh(self) -> RegistryContent:
        """Read it whole, or what has changed in it; each page has a deadline, and not all of them together."""
        return self._with_kept(await self._asked(self._copy, None))

    def clear(self) -> None:
        """Forget what is kept."""
        if self._kept is not None:
            self._kept.clear()

    async def _asked(
        self, question: Callable[[], Awaitable[RegistryContent]], patience: float | None
    ) -> RegistryContent:
        """What is answered in time; a reason when nothing is."""
        name = self.config.name
        if self.offline:
            return RegistryContent(unreached=f"{name} was not asked, as we are offline.")
        try:
            async with asyncio.timeout(patience):
                return await question()
        except TimeoutError:
            return RegistryContent(unreached=f"{name} did not answer within {patience:g} s.")
        except UpstreamError as error:
            why = str(error).partition(" cannot be reached: ")[2] or str(error)
            return RegistryContent(unreached=f"{name} was not reached: {why.rstrip('.')}.")

    async def _search(self, words: Sequence[str]) -> RegistryContent:
        answers = await asyncio.gather(*(self._search_word(word) for word in words), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if failures:
            raise failures[0]
        pages = [answer for answer in answers if isinstance(answer, Page)]
        entries = {entry.id: entry for page in reversed(pages) for entry in page.entries}
        return RegistryContent(tuple(entries.values()), sum(page.dropped for page in pages))

    async def _search_word(self, word: str) -> Page:
        return await self._answer(f"search {word}", lambda mark: self._registry.search(word, etag=mark))

    async def _version(self, name: str, version: str) -> RegistryContent:
        asked = f"version {version} {name}"
        page = await self._answer(asked, lambda mark: self._registry.version(name, version, etag=mark), single=True)
        return RegistryContent(tuple(entry for entry in page.entries if entry.id == name), page.dropped)

    async def _versions(self, name: str) -> RegistryContent:
        answer = await self._registry.versions(name)
        page = self._page(answer.content or NOTHING, several=True)
        return RegistryContent(tuple(entry for entry in page.entries if entry.id == name), page.dropped)

    async def _copy(self) -> RegistryContent:
        old = self._kept.load(EVERYTHING) if self._kept else None
        copy = await self._registry.copy(old.content if old else b"", since=old.mark if old else "")
        if not copy.problem:
            self._save(EVERYTHING, copy.content, copy.since)
        why = f"{self.config.name} was not read to its end: {copy.problem}" if copy.problem else ""
        return RegistryContent(self._page(copy.content).entries, copy.dropped, why)

    async def _answer(
        self, asked: str, fetch: Callable[[str], Awaitable[RegistryAnswer]], *, single: bool = False
    ) -> Page:
        """The registry's answer, or that which is kept and still fresh, or has not changed since."""
        kept = self._kept.load(asked) if self._kept else None
        if kept is not None and self._clock() - kept.fetched < self._ttl:
            return self._page(kept.content)
        answer = await fetch(kept.mark if kept else "")
        if answer.status == 304 and kept is not None:
            content, mark = kept.content, kept.mark
        else:
            content, mark = write_page([answer.content]) if single and answer.content else answer.content, answer.etag
        page = self._page(content or NOTHING)
        self._save(asked, content or NOTHING, mark)
        return page

    def _save(self, asked: str, content: bytes, mark: str) -> None:
        if self._kept is not None:
            self._kept.save(asked, CachedAnswer(content, self._clock(), mark))

    def _fresh(self, asked: str) -> bool:
        kept = self._kept.load(asked) if self._kept else None
        return kept is not None and self._clock() - kept.fetched < self._ttl

    def _with_kept(self, found: RegistryContent, words: Collection[bytes] = ()) -> RegistryContent:
        """What was found, and what earlier answers said."""
        entries = {entry.id: entry for entry in found.entries}
        for page, _ in self._pages(words):
            for entry in page.entries:
                entries.setdefault(entry.id, entry)
        return replace(found, entries=tuple(entries.values()))

    def _find_kept(self, name: str) -> tuple[tuple[RegistryEntry, ...], float]:
        for page, fetched in self._pages([name.lower().encode()]):
            for entry in page.entries:
                if entry.id == name:
                    return (entry,), fetched
        return (), 0.0

    def _pages(self, words: Collection[bytes] = ()) -> Iterator[tuple[Page, float]]:
        for kept in self._kept.all() if self._kept else ():
            try:
                yield read_page(kept.content, source=self.config.name, words=words), kept.fetched
            except UpstreamError:
                continue  # somebody else wrote that file

    def _page(self, content: bytes, *, several: bool = False) -> Page:
        return read_page(content, source=self.config.name, several=several)
