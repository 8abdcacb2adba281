"""The stage before all others: answers what is asked of Trunkline itself, and helps those who call what they found."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast
from urllib.parse import unquote

import msgspec

from trunkline.call.functions import Functions, stubs_within
from trunkline.call.stage import Handler, failed
from trunkline.config.options import Config, SearchStrategy
from trunkline.errors import HeldError, InvalidArgumentsError
from trunkline.identity import Scope, unit_name
from trunkline.model import NOTHING, Call, Caller, Entry, Kind, Reply, Snapshot, View
from trunkline.telemetry.savings import Savings
from trunkline.tool import PROGRAM
from trunkline.tools import builtin, names
from trunkline.tools.brief import complete, one_line, within
from trunkline.tools.check.checker import MAX_DEPTH, checker_for, measured
from trunkline.tools.tokens import estimated
from trunkline.upstream.connection_key import can_be_asked
from trunkline.wire.envelope import read_string
from trunkline.wire.members import (
    Members,
    decode_bounded,
    decode_object,
    encode,
    is_object,
    read_members,
    read_unambiguous,
    write_members,
)

CLOSE = 5
"""Names that are offered in the place of one that nobody has."""


class Hit(Protocol):
    """A tool that was found."""

    @property
    def tool(self) -> Entry: ...
    @property
    def score(self) -> float: ...
    @property
    def words_alone(self) -> bool: ...


Find = Callable[[Call, str, Snapshot, int, SearchStrategy | None], Awaitable[Sequence[Hit]]]
"""Finds the tools of a snapshot that fit a query, for whoever makes the call, by the usual strategy or another."""


class BuiltinStage:
    """Knows what each caller sees, and how tools are found."""

    def __init__(
        self, view: Callable[[Scope, Caller], View], find: Find, config: Config, savings: Savings, run: Handler
    ) -> None:
        self._view, self._find, self._savings, self._run = view, find, savings, run
        self._search, self._middleware = config.search, config.middleware

    def __call__(self, call: Call, call_next: Handler) -> Awaitable[Reply]:
        if call.by_search:
            return self._found(call, call_next)
        if call.name in builtin.NAMES and call.method == "tools/call":
            view = self._view(call.scope, call.caller)
            unwrap(call, view)  # of one that was made here, no edge did
            if call.by_search:
                return self._found(call, call_next)
            if call.name == builtin.RUN:
                return self._run(call) if self._may_run(call, view) else call_next(call)
            if view.searching:
                return self._counted(call, view) if call.name == builtin.SEARCH else self._misnamed(call, view)
        elif call.method == "resources/read" and call.name.startswith(builtin.CATALOGUE):
            view = self._view(call.scope, call.caller)
            if view.resources:
                return self._catalogue(call, view, call_next)
        return call_next(call)

    @staticmethod
    def _may_run(call: Call, view: View) -> bool:
        """A program runs none, nor does who is not offered it; a command of this machine is, whatever is listed."""
        return not call.scope.program and (view.programs or call.unlisted)

    # search_tools

    async def _counted(self, call: Call, view: View) -> Reply:
        call.note("builtin", call.name)
        reply = await self._searched(call, view)
        self._savings.searched(call.scope.profile, call.scope.user, reply.result)
        return reply

    async def _searched(self, call: Call, view: View) -> Reply:
        asked = decode_object(call.params.get("arguments", b"{}"))
        problems = checker_for(_SEARCH_SCHEMA).problems(_lenient(asked))
        if problems:
            return failed(f"{builtin.SEARCH} was not called well: {'; '.join(problems)}.")
        asked = _lenient(asked)
        given = (text.strip()[:_LONGEST] for text in cast("list[str]", asked.get("queries", [])))
        queries = [text for text in dict.fromkeys(given) if text]
        wanted = cast("list[str]", asked.get("names", []))
        if not queries and not wanted:
            return failed('Say what you want to do: {"query": "open a pull request"}.')
        limit, strategy = int(asked.get("limit") or self._search.limit), asked.get("strategy")
        if view.coding:
            scope = dataclasses.replace(call.scope, program=PROGRAM)
            view = self._view(scope, call.caller)
            found = [await self._find(call, query, view.snapshot, limit, strategy) for query in queries]
            return self._functions(call, view, wanted, queries, found, limit)
        answer: dict[str, Any] = {"tools": []}
        if wanted:
            self._tell_named(answer, wanted, call, view)
        if queries:
            found = [await self._find(call, query, view.snapshot, limit, strategy) for query in queries]
            self._tell_found(answer, queries, found, limit)
        return _answered(answer)

    def _functions(
        self,
        call: Call,
        view: View,
        wanted: Sequence[str],
        queries: Sequence[str],
        found: Sequence[Sequence[Hit]],
        limit: int,
    ) -> Reply:
        """What was found as Python functions, as a program calls them."""
        functions = Functions(view.snapshot)
        named = [functions.get(name) or _findable_tool(name, call, view) for name in wanted]
        turns = [hits[turn].tool for turn in range(limit) for hits in found if turn < len(hits)]
        entries = {entry.shown: entry for entry in (*named, *turns) if entry is not None}
        shown = list(entries.values())[: builtin.MOST_TOOLS]
        text = stubs_within([(entry, functions.name_of(entry)) for entry in shown], self._search.budget)
        nothing = [query[:_SHOWN] for query, hits in zip(queries, found, strict=True) if not hits]
        nothing += [name[:_SHOWN] for name, entry in zip(wanted, named, strict=True) if entry is None]
        notes = [f"# Nothing fits: {one}" for one in nothing]
        content = encode([{"type": "text", "text": "\n".join((*([text] if text else []), *notes))}])
        return Reply(result=write_members({"resultType": b'"complete"', "content": content}))

    def _tell_named(self, answer: dict[str, Any], wanted: Sequence[str], call: Call, view: View) -> None:
        """Whole definitions, of the tools that there are."""
        known = {name: entry for name in wanted if (entry := _findable_tool(name, call, view)) is not None}
        answer["tools"] += [
            whole_definition(entry) for entry in {entry.shown: entry for entry in known.values()}.values()
        ]
        unknown = [name[:_SHOWN] for name in wanted if name not in known]
        if unknown:
            answer["unknown"] = unknown

    def _tell_found(
        self, answer: dict[str, Any], queries: Sequence[str], found: Sequence[Sequence[Hit]], limit: int
    ) -> None:
        """The best of each query in turn, with as much of their definitions as the budget allows."""
        turns = (hits[turn] for turn in range(limit) for hits in found if turn < len(hits))
        best: dict[str, Hit] = {}
        for hit in turns:
            best.setdefault(hit.tool.shown, hit)
        nothing = [query[:_SHOWN] for query, hits in zip(queries, found, strict=True) if not hits]
        shown = {str(tool["name"]) for tool in answer["tools"]}
        hits = [hit for name, hit in best.items() if name not in shown][: builtin.MOST_TOOLS]
        frame = estimated(encode({"note": _WORDS_ALONE, "nothing_fits": nothing, "left_out": [], "hint": _WHOLE}))
        briefs = within([definition_of(hit.tool) for hit in hits], self._search.budget - frame)
        for hit, brief in zip(hits, briefs.tools, strict=False):
            answer["tools"].append({"name": brief.pop("name"), "score": round(hit.score, 2), **brief})
        if any(hit.words_alone for hit in hits):
            answer["note"] = _WORDS_ALONE
        if nothing:
            answer["nothing_fits"] = nothing
        if briefs.left_out:
            answer["left_out"] = briefs.left_out
        if briefs.left_out or any("shortened" in brief for brief in briefs.tools):
            answer["hint"] = _WHOLE
        elif nothing and not answer["tools"]:
            answer["hint"] = "Say it in other words, or smaller steps. If still nothing fits, there is no such tool."

    # call_tool

    async def _misnamed(self, call: Call, view: View) -> Reply:
        """A call that names no tool: whoever made it is told which there are."""
        asked = decode_object(call.params.get("arguments", b"{}"))
        name = asked.get("name")
        if not isinstance(name, str) or not name:
            return failed(f'{builtin.CALL} wants {{"name": "...", "arguments": {{...}}}}: the name is missing.')
        if callable_tool(name, view) is not None:
            if asked.keys() - _TAKEN:
                return failed(f'{builtin.CALL} takes no other names: the arguments of {name} stand inside "arguments".')
            return failed(f'The arguments of {name} must be an object: {{"name": "{name}", "arguments": {{...}}}}.')
        if name in builtin.NAMES:
            return failed(f"{builtin.CALL} calls what {builtin.SEARCH} found. Call {name} itself.")
        held = names.held_back(name, Kind.TOOL, view.snapshot)
        if held is not None:
            return failed(str(HeldError(held.name, unit_name(held.server), held.held)))
        name = name[:_LONGEST]
        hits = await self._find(call, name.replace("_", " "), view.snapshot, CLOSE, None)
        close = names.closest(name, (entry.shown for entry in _findable(call, view)), CLOSE)
        close = list(dict.fromkeys((*close, *(hit.tool.shown for hit in hits))))[:CLOSE]
        told = f"There is no tool {name[:_SHOWN]!r}. {view.snapshot.missing}".rstrip()
        return failed(
            f"{told} Did you mean {', '.join(close)}?" if close else f"{told} Find one with {builtin.SEARCH}."
        )

    async def _found(self, call: Call, call_next: Handler) -> Reply:
        """A call of a tool that was found: arguments that do not fit are told in words that help."""
        entry = names.meaning(call.name, Kind.TOOL, self._view(call.scope, call.caller).snapshot)
        if entry is None:
            return await call_next(call)
        if call.parked is None and not self._asks_for_missing(entry):
            checker = checker_for(decode_object(members_of(entry).get("inputSchema", b"")))
            arguments = decode_object(call.params.get("arguments", b"{}"))
            # What cannot be checked here, the server checks.
            problems = checker.problems(arguments) if checker.checks(arguments) else []
            if problems:
                call.note("arguments", "do not fit")
                return self._unfit(entry, "; ".join(problems))
        try:
            return await call_next(call)
        except InvalidArgumentsError as error:
            return self._unfit(entry, str(error))

    def _asks_for_missing(self, entry: Entry) -> bool:
        said = self._middleware.validate if entry.options.validate is None else entry.options.validate
        return said and self._middleware.elicit_missing

    def _unfit(self, entry: Entry, problems: str) -> Reply:
        brief = within([definition_of(entry)], self._search.budget // 2).tools[0]
        schema = encode(brief.get("inputSchema", {})).decode()
        more = f' It is shortened; {builtin.SEARCH} with {{"names": ["{entry.shown}"]}} gives the whole.'
        return failed(
            f"The arguments do not fit tool {entry.shown}: {problems.rstrip('.')}. It was not called. "
            f"Its input schema: {schema}.{more if 'shortened' in brief else ''}"
        )

    # The catalogue as a resource.

    async def _catalogue(self, call: Call, view: View, call_next: Handler) -> Reply:
        if call.name == builtin.CATALOGUE:
            content = encode({"tools": [line_of(entry) for entry in _findable(call, view)]})
        else:
            entry = _findable_tool(unquote(call.name.removeprefix(builtin.CATALOGUE + "/")), call, view)
            if entry is None:
                return await call_next(call)  # an address that nobody has
            content = entry.definition
        call.note("builtin", "catalogue")
        block = {"uri": call.name, "mimeType": "application/json", "text": content.decode()}
        fresh = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return Reply(result=encode({"contents": [block], **fresh}))


def unwrap(call: Call, view: View) -> None:
    """Make a use of `call_tool` the call that it means; one that means nothing is left for the stage to answer."""
    if not view.searching or call.name != builtin.CALL or call.method != "tools/call":
        return
    try:
        asked = read_unambiguous(call.params.get("arguments", b"{}"))
    except ValueError:
        return
    name = read_string(asked.get("name", b""))
    arguments = asked.get("arguments", b"{}")
    if arguments[:1] == b'"':
        arguments = read_string(arguments).strip().encode()  # some models write the object as a text
    entry = callable_tool(name, view)
    if entry is None or asked.keys() - _TAKEN or not _whole_object(arguments):
        return
    call.name = name
    call.params = {**call.params, "name": encode(name), "arguments": arguments}
    call.raw_params = b""
    call.headers = NOTHING
    call.by_search = True


def callable_tool(name: str, view: View) -> Entry | None:
    """The tool that a model may call by this name."""
    entry = names.meaning(name, Kind.TOOL, view.snapshot)
    return entry if entry is not None and not entry.app_only else None


def _findable_tool(name: str, call: Call, view: View) -> Entry | None:
    """The tool of this name, if whoever makes the call may find it."""
    entry = callable_tool(name, view)
    return entry if entry is not None and (not entry.for_askable or can_be_asked(call.caller)) else None


def _findable(call: Call, view: View) -> list[Entry]:
    asked = can_be_asked(call.caller)
    return [one for one in view.snapshot.tools.values() if not one.app_only and (asked or not one.for_askable)]


def _whole_object(text: bytes) -> bool:
    try:
        read_members(text)
    except ValueError:
        return False
    return is_object(text)


def _lenient(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked, with a query alone taken for a list of one."""
    queries = asked.get("queries", [])
    if isinstance(queries, str):
        queries = [queries]
    query = asked.get("query")
    if isinstance(query, str) and isinstance(queries, list):
        queries = [query, *cast("list[Any]", queries)]
    rest = {key: value for key, value in asked.items() if key != "query" or not isinstance(value, str)}
    return {**rest, "queries": queries}


def _answered(answer: Mapping[str, Any]) -> Reply:
    text = encode([{"type": "text", "text": encode(answer).decode()}])
    return Reply(result=write_members({"resultType": b'"complete"', "content": text}))


_WHOLE = f'For whole definitions call {builtin.SEARCH} with {{"names": [...]}}.'
_WORDS_ALONE = "Found by words alone: what the query means was not known in time. Ask again for what its meaning finds."
_TAKEN = frozenset(("name", "arguments"))
_LONGEST = 2000
"""Characters of a query that are looked at."""
_SHOWN = 80
"""Characters that are repeated of what a caller wrote."""
_SEARCH_SCHEMA: dict[str, Any] = builtin.definitions(())[0]["inputSchema"]


def definition_of(entry: Entry) -> dict[str, Any]:
    """What a tool says of itself, but for what is too large or too deep to be read."""
    try:
        found = decode_bounded(entry.definition)
    except ValueError:
        found = {}
    if entry.definition.count(b"{") + entry.definition.count(b"[") > MAX_DEPTH:  # else it cannot be deep
        found = {name: value for name, value in found.items() if measured({name: value}).depth <= MAX_DEPTH}
    if _SURROGATE.search(entry.definition):  # half of a pair JSON can write, but UTF-8 cannot
        found = decode_object(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    if not {"description", "inputSchema"} <= found.keys():
        members = members_of(entry)
        found["shortened"] = not members or any(name not in found for name in _SAID if name in members)
    return {**found, "name": entry.shown}


def whole_definition(entry: Entry) -> dict[str, Any]:
    """All that a tool says to a model; what cannot be read goes as it is."""
    definition, members = definition_of(entry), members_of(entry)
    unread = [name for name in _SAID if name in members and name not in definition]
    return complete(definition | {name: msgspec.Raw(members[name]) for name in unread})


def members_of(entry: Entry) -> Members:
    """Empty where they are nested deeper than can be read from here."""
    try:
        return read_members(entry.definition)
    except ValueError:
        return {}


def line_of(entry: Entry) -> dict[str, str]:
    """A tool in a line, as the catalogue lists it."""
    read = {name: read_string(text) for name, text in members_of(entry).items() if name in ("description", "title")}
    return {"name": entry.shown, "server": entry.server, "description": one_line(read)}


_SAID = ("description", "inputSchema", "outputSchema")
_SURROGATE = re.compile(rb"(?i)\\ud[89a-f]")
