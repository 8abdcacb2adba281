"""The stage that keeps large results aside: callers get a preview, and what reads, searches and queries the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from trunkline import workers
from trunkline.call.results import reading
from trunkline.call.results.json_text import written
from trunkline.call.results.kept import Document, KeptResult, KeptResults, discard
from trunkline.call.results.shown import PreviewFacts, Taken, show, take
from trunkline.call.stage import Handler, failed
from trunkline.config.options import Config, result_limits
from trunkline.errors import InvalidArgumentsError, UnknownNameError
from trunkline.identity import Scope
from trunkline.model import Call, Caller, Kind, Reply, View
from trunkline.telemetry.savings import Savings
from trunkline.tools import builtin
from trunkline.tools.check.checker import checker_for
from trunkline.wire.members import decode_object, encode, read_members, write_members

WHOLE = "dev.trunkline/whole"
"""Where a request says in its `_meta` that its caller reads large results itself."""
SMALL = 2
"""Bytes that a token has at least, all in all: what has fewer for its limit need not be weighed."""
INLINE = 2**16
"""Bytes that are looked at without a thread."""


class ResultsStage:
    """Knows what each caller may be shown whole, and what was kept for whom."""

    def __init__(
        self, config: Config, kept: KeptResults, view: Callable[[Scope, Caller], View], savings: Savings
    ) -> None:
        self._config, self._kept, self._view, self._savings = config.results, kept, view, savings
        self._limits = {
            name: profile.max_result_tokens
            for name, profile in config.profiles.items()
            if profile.max_result_tokens is not None
        }
        self._least = SMALL * min(result_limits(config), default=0)

    async def __call__(self, call: Call, call_next: Handler) -> Reply:
        if call.method == "tools/call" and call.name in builtin.RESULT_TOOLS:
            view = self._view(call.scope, call.caller)
            if view.reads_results:
                return await self._answer(call, view)
        elif call.method == "resources/read" and call.name.startswith(builtin.RESULTS):
            return await self._resource(call)
        reply = await call_next(call)
        if len(reply.result) <= self._least or call.method not in _METHODS:
            return reply
        limit = self._limit(call)
        return reply if len(reply.result) <= SMALL * limit or not limit else await self._shortened(call, reply, limit)

    def _limit(self, call: Call) -> int:
        """Tokens that are shown whole; 0 for all."""
        scope, entry = call.scope, call.entry
        if call.whole or scope.program or _wants_whole(call):
            return 0
        said = entry.options.max_result_tokens if entry is not None else None
        if said is not None:
            return said
        if entry is not None and (entry.app_only or entry.page):
            return 0  # the page that shows the result needs all of it
        return self._limits.get(scope.profile, self._config.max_tokens)

    # Keeping.

    async def _shortened(self, call: Call, reply: Reply, limit: int) -> Reply:
        outer: dict[str, bytes] = {}
        result = reply.result
        if call.method == "tasks/get":  # a modern task brings its result inside
            outer = read_members(result)
            result = outer.get("result", b"")
        taken = await _off_loop(len(result), partial(take, result, limit))
        if taken is None or not self._kept.fits(taken.size):
            return reply
        entry = call.entry
        documents = await _off_loop(taken.size, partial(self._written, taken))
        kept = self._kept.add(
            call.scope, entry.server if entry else "", entry.name if entry else "", documents, taken.tokens
        )
        schema = (
            decode_object(read_members(entry.definition).get("outputSchema", b"")) if entry and entry.definition else {}
        )
        frame = PreviewFacts(
            kept.handle, self._config.ttl, min(self._config.preview_tokens, limit), call.caller.version
        )
        shown = await _off_loop(taken.size, partial(show, taken, frame, schema))
        call.note("results", f"kept aside {taken.size} bytes")
        self._savings.previewed(call.scope.profile, call.scope.user, taken.tokens, shown)
        # Others may have the same reply: equal calls share one.
        return msgspec.structs.replace(reply, result=write_members({**outer, "result": shown}) if outer else shown)

    def _written(self, taken: Taken) -> dict[str, Document]:
        made: dict[str, Document] = {}
        try:
            for name, (data, json) in taken.documents.items():
                made[name] = self._kept.write(data, json=json)
        except OSError:
            discard(made)
            # A disk that is full must not lose a result: what can be had in no file is kept in memory.
            made = {name: Document(json, len(data), data) for name, (data, json) in taken.documents.items()}
        return made

    # Reading.

    async def _answer(self, call: Call, view: View) -> Reply:
        call.note("builtin", call.name)
        asked = decode_object(call.params.get("arguments", b"{}"))
        problems = checker_for(builtin.result_schema(call.name)).problems(asked)
        if problems:
            return failed(f"{call.name} was not called well: {'; '.join(problems)}.")
        kept = self._kept.find(asked["result"].removeprefix(builtin.RESULTS), call.scope)
        if kept is None or not _has(view, kept):
            return failed(
                "There is no such result: it was kept for a while only, or is another's. Call the tool again."
            )
        part = asked.get("part") or next(iter(kept.documents))
        document = kept.documents.get(part)
        if document is None:
            return failed(f"The result has no part {part!r}, but {', '.join(kept.documents)}.")
        budget = max(reading.LEAST, self._limit(call) or self._config.preview_tokens)
        try:
            answer = await _off_loop(document.size, partial(_read, call.name, document, asked, budget))
        except InvalidArgumentsError as error:
            return failed(f"{error}")
        except (OSError, RecursionError):
            return failed("The result can no longer be read. Call the tool again.")
        self._savings.read_back_part(call.scope.profile, call.scope.user, answer)
        content = b'[{"type":"text","text":' + written(answer.decode()) + b"}]"
        return Reply(result=write_members({"resultType": b'"complete"', "content": content}))

    async def _resource(self, call: Call) -> Reply:
        kept = self._kept.find(call.name.removeprefix(builtin.RESULTS), call.scope)
        if kept is None or not _has(self._view(call.scope, call.caller), kept):
            raise UnknownNameError(f"Unknown resource: {call.name}")
        try:
            contents = await _off_loop(kept.size, partial(_contents, call.name, kept))
        except OSError:
            raise UnknownNameError(f"Unknown resource: {call.name}") from None
        left = b"%d" % (self._kept.seconds_left(kept) * 1000)
        fresh = {"resultType": b'"complete"', "ttlMs": left, "cacheScope": b'"private"'}
        return Reply(result=write_members({"contents": contents, **fresh}))


_METHODS = frozenset(("tools/call", "tasks/result", "tasks/get"))


def _wants_whole(call: Call) -> bool:
    meta = call.params.get("_meta", b"")
    return WHOLE.encode() in meta and decode_object(meta).get(WHOLE) is True


def _has(view: View, kept: KeptResult) -> bool:
    """Whether a caller still has the tool that a result is of."""
    if not kept.server or kept.server == view.snapshot.bare:
        return True
    offer = view.snapshot.offers.get(kept.server)
    return offer is not None and kept.tool in offer.own.get(Kind.TOOL, {})


async def _off_loop(size: int, work: Callable[[], Any]) -> Any:
    """Do something in a thread, unless that takes longer than the thing itself."""
    return work() if size <= INLINE else await workers.in_thread(work)


def _read(tool: str, document: Document, asked: Mapping[str, Any], budget: int) -> bytes:
    data, start, count = document.load(), asked.get("start"), asked.get("count", 0)
    first = max(1, 1 if start is None else start)
    if tool == builtin.QUERY:
        if not document.json:
            return encode({"note": "This is text: read it by lines, or search it."})
        fields = asked.get("fields", [])
        answer = reading.query_json(data, asked["query"], fields, start or 0, count, budget)
    elif tool == builtin.SEARCH_RESULT:
        wanted, regex = asked["text"], bool(asked.get("regex"))
        if document.json and not regex:
            answer = reading.search_json(data, wanted, start or 0, count, budget)
        else:
            answer = reading.search_text(data, wanted, first, count, budget, regex=regex)
    elif document.json and not asked.get("column"):
        answer = reading.read_json(data, asked.get("path", "$"), start or 0, count, budget)
    else:
        answer = reading.read_text(data, first, asked.get("column", 0), count, budget)
    return encode(answer)


def _contents(uri: str, kept: KeptResult) -> bytes:
    blocks: list[bytes] = []
    for document in kept.documents.values():
        kind = b'"application/json"' if document.json else b'"text/plain"'
        text = written(document.load().decode("utf-8", "replace"))
        blocks.append(write_members({"uri": encode(uri), "mimeType": kind, "text": text}))
    return b"[" + b",".join(blocks) + b"]"
