"""Calls that become tasks, and requests about tasks: in the words of the caller's era, whatever the server's."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

import msgspec

from trunkline.call.stage import Handler
from trunkline.call.tasks import modern
from trunkline.call.tasks.legacy import LegacyTasks
from trunkline.call.tasks.log import At, Task, TaskLog, no_such_task
from trunkline.errors import RefusedError, UpstreamError
from trunkline.model import NOTHING, SILENT, Answer, Call, Caller, Parked, Question, Reply, ServerView
from trunkline.tasks import Tasks
from trunkline.upstream.connection_key import askable
from trunkline.wire import meta, tasks
from trunkline.wire.envelope import EMPTY, INVALID_PARAMS, METHOD_NOT_FOUND, error_object, read_string
from trunkline.wire.era import LATEST_LEGACY, MISSING_CAPABILITY, MODERN_VERSIONS
from trunkline.wire.members import Members, encode, is_object, read_members, write_members

PAGE = 50
"""Tasks on one page of `tasks/list`; each is asked for at its server."""

_METHODS = {
    True: frozenset(("tasks/get", "tasks/update", "tasks/cancel")),
    False: frozenset(("tasks/get", "tasks/result", "tasks/cancel", "tasks/list")),
}


class TaskStage:
    """Asks for tasks where that needs words, and finds a task by its id."""

    def __init__(self, log: TaskLog, running: Tasks, *, most: int, seconds: float) -> None:
        self._log = log
        self._legacy = LegacyTasks(running, most=most, seconds=seconds)

    def __call__(self, call: Call, call_next: Handler) -> Awaitable[Reply]:
        if call.method[:6] == "tasks/":
            return self._about(call, call_next)
        if not call.caller.modern:
            wanted = "task" in call.params and call.method == "tools/call"
            return self._asked(call, call_next) if wanted else call_next(call)
        if call.entry is not None and (call.entry.tasks or "task" in call.params):
            _ask(call, call.entry.tasks)
        return self._watched(call, call_next) if tasks.declares(call.caller.capabilities) else call_next(call)

    async def _watched(self, call: Call, call_next: Handler) -> Reply:
        """A call of a caller that knows tasks, which may become one."""
        reply = await call_next(call)
        if reply.result.partition(b'"taskId"')[1]:
            self._became(call, reply)
        return reply

    # Calls that become tasks.

    def _became(self, call: Call, reply: Reply) -> None:
        """A modern caller's call may have become a task."""
        members = read_members(reply.result)
        if not reply.modern and is_object(members.get("task", b"")):
            state = read_members(members.pop("task"))
            could = askable(call.caller.capabilities).decode()
            task = self._log.made(call, read_string(state.get("taskId", b"")), At.LEGACY, could)
            made = {"resultType": b'"task"', **members, **tasks.modern_state(state, task.id)}
            reply.result, reply.modern = write_members(made), True
        elif reply.modern and read_string(members.get("resultType", b"")) == "task":
            task = self._log.made(call, read_string(members.get("taskId", b"")), At.MODERN)
            reply.result = write_members({**members, "taskId": encode(task.id)})

    async def _asked(self, call: Call, call_next: Handler) -> Reply:
        """A legacy caller wants a task, and gets one even where a modern server answers at once."""
        view = _view(call)
        runs = runs_tasks(view)
        if not runs and not (call.snapshot and call.snapshot.bare):
            raise RefusedError(f"{call.name!r} does not run as a task.", code=METHOD_NOT_FOUND)
        reply = await call_next(call)
        if reply.error or reply.questions:
            return reply
        members = read_members(reply.result)
        how = read_string(members.get("resultType", b""))
        if reply.modern and how == "task":
            task = self._log.made(call, read_string(members.get("taskId", b"")), At.MODERN)
            state = tasks.legacy_state(members, task.id)
            rest = {"_meta": members["_meta"]} if "_meta" in members else {}
        elif not reply.modern and is_object(members.get("task", b"")):
            state = read_members(members.pop("task"))
            task = self._log.made(call, read_string(state.get("taskId", b"")), At.LEGACY)
            state, rest = {**state, "taskId": encode(task.id)}, members
        elif how == "input_required" or not (runs and view and view.introduction and view.introduction.modern):
            return reply
        else:
            _, state = self._log.keep(call, reply)
            rest = {}
        return Reply(result=write_members({"task": write_members(state), **meta.plain(rest)}), modern=False)

    # Requests about tasks.

    async def _about(self, call: Call, call_next: Handler) -> Reply:
        if call.method not in _METHODS[call.caller.modern]:
            return await _unknown(call, call_next)
        if call.caller.modern and not tasks.declares(call.caller.capabilities):
            raise missing_extension()
        if call.method == "tasks/list":
            return await self._list(call, call_next)
        task = self._log.open(call)
        if call.snapshot is not None and task.server not in call.snapshot.servers:
            raise no_such_task()  # with another key of the user, or in another thread, its server is not there
        send = partial(_send, call, call_next, task)
        match task.at:
            case At.HERE:
                return self._over(call, task)
            case At.MODERN if call.caller.modern:
                return _renamed(await send(call.method, _others(call)), task)
            case At.MODERN:
                return await _for_legacy(call, task, send)
            case At.LEGACY if call.caller.modern:
                return await self._for_modern(call, task, send)
            case At.LEGACY:
                return await _same(call, task, send)

    async def _for_modern(self, call: Call, task: Task, send: modern.Send) -> Reply:
        match call.method:
            case "tasks/get":
                return await self._legacy.state(task, send, call.scope.user)
            case "tasks/update":
                text = call.params.get("inputResponses", b"")
                given = read_members(text) if is_object(text) else {}
                return await self._legacy.update(task, send, {key: Answer(one) for key, one in given.items()})
            case _:
                return await self._legacy.cancel(task, send)

    def _over(self, call: Call, task: Task) -> Reply:
        """A call that ended at once, for its legacy caller."""
        kept = self._log.kept(task)
        match call.method:
            case "tasks/get":
                return Reply(result=write_members(kept.state), modern=False)
            case "tasks/result":
                members = meta.plain(read_members(kept.reply.result)) if kept.reply.modern else None
                text = write_members(members) if members is not None else kept.reply.result
                return Reply(result=tasks.related(text, task.id, always=True), modern=False)
            case _:
                return Reply(error=error_object(INVALID_PARAMS, "The task cannot be cancelled: it is over."))

    async def _list(self, call: Call, call_next: Handler) -> Reply:
        """The tasks that this caller made, as far as they are still there."""
        snapshot = call.snapshot
        if snapshot and snapshot.bare and not runs_tasks(snapshot.servers[snapshot.bare]):
            return await _unknown(call, call_next)
        held = self._log.held_by(call.scope.holder, after=_cursor(call))
        found: list[bytes] = []
        for number in list(held)[:PAGE]:
            params = {"taskId": encode(held[number].id)}
            try:
                reply = await self._about(msgspec.structs.replace(call, method="tasks/get", params=params), call_next)
            except UpstreamError:
                continue  # its server is away; it may come back
            except RefusedError:
                reply = Reply(error=b"{}")
            if reply.error:
                self._log.forget(held[number])
            else:
                found.append(reply.result)
        result: Members = {"tasks": b"[" + b",".join(found) + b"]"}
        if len(held) > PAGE:
            result["nextCursor"] = encode(str(list(held)[PAGE - 1]))
        return Reply(result=write_members(result), modern=False)


def runs_tasks(view: ServerView | None) -> bool:
    """Whether calls of a server's tools may become tasks."""
    if view is None or view.introduction is None or not view.lasting:
        return False
    runs = tasks.runs_modern if view.introduction.modern else tasks.runs_legacy
    return runs(view.introduction.capabilities)


def missing_extension() -> RefusedError:
    """What a modern caller gets that does not say that it knows tasks."""
    needed: Mapping[str, Any] = {"requiredCapabilities": {"extensions": {tasks.EXTENSION: {}}}}
    return RefusedError("Missing required client capability", code=MISSING_CAPABILITY, data=needed)


def _view(call: Call, server: str = "") -> ServerView | None:
    return call.snapshot.servers.get(server or call.server) if call.snapshot is not None else None


def _ask(call: Call, support: str) -> None:
    """A modern caller that knows tasks has its calls run as tasks by legacy tools that can; it has no word for it."""
    view = _view(call)
    if view is None or view.introduction is None or view.introduction.modern:
        return
    params = {name: value for name, value in call.params.items() if name != "task"}
    if support and runs_tasks(view):
        if tasks.declares(call.caller.capabilities):
            params["task"] = b"{}"
            call.with_tasks = True
        elif support == "required":
            raise missing_extension()
    call.params, call.raw_params = params, b""


async def _send(
    call: Call,
    call_next: Handler,
    task: Task,
    method: str,
    params: Members = EMPTY,
    *,
    parked: Parked | None = None,
    answers: Mapping[str, Answer] = NOTHING,
) -> Reply:
    """A request about a task, in its server's era, on the connection where the task is known."""
    caller = _caller(call, task)
    full = {**params, "taskId": encode(task.own)}
    if caller.modern and not call.caller.modern:
        full = meta.stamp(full, meta.Meta(caller.version, caller.capabilities, caller.client_info))
    view = _view(call, task.server)
    sent = msgspec.structs.replace(
        call,
        method=method,
        name=task.own,
        params=full,
        raw_params=b"",
        caller=caller,
        with_tasks=bool(task.capabilities) and task.at is not At.MODERN,
        server=task.server,
        listener=call.listener if call.caller.modern == caller.modern else SILENT,
        timeout=view.max_timeout if method == "tasks/result" and view is not None else 0.0,
        parked=parked,
        answers=answers,
    )
    return await call_next(sent)


def _caller(call: Call, task: Task) -> Caller:
    """As whom a task's server knows who made the task."""
    caller = call.caller
    if task.at is At.MODERN:
        if caller.modern:
            return caller
        capabilities = tasks.declaring(caller.capabilities)
        return msgspec.structs.replace(
            caller, modern=True, version=MODERN_VERSIONS[0], capabilities=capabilities, log_level=""
        )
    if not task.capabilities:
        return msgspec.structs.replace(caller, modern=False, log_level="")
    return Caller(False, LATEST_LEGACY, task.capabilities.encode())


async def _for_legacy(call: Call, task: Task, send: modern.Send) -> Reply:
    match call.method:
        case "tasks/get":
            return await modern.state(task, send)
        case "tasks/cancel":
            return await modern.cancel(task, send)
        case _:
            view = _view(call, task.server)
            patience = view.max_timeout if view is not None else 600.0
            return await modern.result(task, send, patience=patience, parked=call.parked, answers=call.answers)


async def _same(call: Call, task: Task, send: modern.Send) -> Reply:
    """From a legacy caller to a legacy server: only the ids differ."""
    answers = {key: Answer(tasks.related(one.result, task.own), one.error) for key, one in call.answers.items()}
    reply = await send(call.method, _others(call), parked=call.parked, answers=answers)
    if reply.questions:
        reply.questions = {
            key: Question(one.method, tasks.related(one.params, task.id)) for key, one in reply.questions.items()
        }
    elif call.method == "tasks/result" and not reply.error:
        reply.result = tasks.related(reply.result, task.id, always=True)
    return _renamed(reply, task) if call.method != "tasks/result" else reply


def _others(call: Call) -> Members:
    return {name: value for name, value in call.params.items() if name != "taskId"}


def _renamed(reply: Reply, task: Task) -> Reply:
    """A reply that names the task as its caller does."""
    if reply.result.partition(b'"taskId"')[1]:
        reply.result = write_members({**read_members(reply.result), "taskId": encode(task.id)})
    return reply


def _cursor(call: Call) -> int:
    """The number of the task behind which a page begins."""
    cursor = read_string(call.params.get("cursor", b""))
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
        raise RefusedError("The cursor is not one of ours.", code=INVALID_PARAMS)
    return int(cursor or 0)


async def _unknown(call: Call, call_next: Handler) -> Reply:
    """A method that is none of ours: a server that stands alone answers for itself."""
    if call.snapshot is not None and call.snapshot.bare:
        call.server = call.snapshot.bare
        return await call_next(call)
    raise RefusedError(f"There is no method {call.method!r}.", code=METHOD_NOT_FOUND, status=404)
