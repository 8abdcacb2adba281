"""The tasks of the server of one era: `tasks` of 2025-11-25, or the extension of 2026-07-28."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fidelity import offers

RELATED = "io.modelcontextprotocol/related-task"
MADE = "2026-01-02T03:04:05Z"
ENDED = ("completed", "failed", "cancelled")
FORM = {"method": "elicitation/create", "params": offers.FORM}


class TaskError(Exception):
    """A request about a task is answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


@dataclass(eq=False)
class Job:
    """One task. Without a key it ends when it is looked at the second time, or when its result is wanted."""

    how: str
    key: str
    session: Any
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    status: str = "working"
    message: str = ""
    looks: int = 0
    result: dict[str, Any] = field(default_factory=dict[str, Any])
    error: dict[str, Any] = field(default_factory=dict[str, Any])
    ended: asyncio.Event = field(default_factory=asyncio.Event)


Tell = Callable[[Job], Awaitable[None]]
Put = Callable[[Any, str, dict[str, Any]], Awaitable[Any]]


class Jobs:
    """All tasks, in the words of one era."""

    def __init__(self, modern: bool, tell: Tell, put: Put) -> None:
        self.modern, self.tell, self.put = modern, tell, put
        self.all: dict[str, Job] = {}

    async def start(self, request: Any) -> dict[str, Any]:
        """Begin a task; the result that says so."""
        if request.arguments.get("how") == "ask_first":
            answer = await self.put(request, "elicitation/create", offers.FORM)
            return offers.said(offers.dumped(answer))
        job = Job(request.arguments.get("how", "plain"), request.arguments.get("key", ""), request.session)
        self.all[job.id] = job
        if self.modern:
            return {"resultType": "task", **self.state(job), "_meta": {"example/t": 1}}
        first = {"task": self.state(job), "_meta": {"example/t": 1}}
        if job.how == "ask":
            job.status = "input_required"
        return first

    async def finish(self, request: Any) -> dict[str, Any]:
        """End the tasks of a key."""
        for job in [job for job in self.all.values() if job.key == request.arguments["key"]]:
            await self.end(job)
        return {"content": []}

    async def answer(self, request: Any, method: str) -> dict[str, Any]:
        """Answer a request about a task, or about all."""
        if method == "tasks/list":
            mine = [job for job in self.all.values() if job.session is request.session]
            return {"tasks": [self.state(job) for job in mine]}
        job = self.all.get(request.params.get("taskId", ""))
        if job is None:
            raise TaskError(-32602, "Task not found")
        match method:
            case "tasks/get":
                return await self.look(job)
            case "tasks/cancel":
                return await self.cancel(job)
            case "tasks/update":
                answers = request.params["inputResponses"]
                if job.status == "input_required" and "who" in answers:
                    await self.end(job, offers.said(offers.dumped(answers["who"])))
                return {}
            case _:
                return await self.wait(job, request)

    async def look(self, job: Job) -> dict[str, Any]:
        job.looks += 1
        if job.status not in ENDED:
            job.message = "Half – é" if job.looks == 1 and job.how != "ask" else ""
        if job.how == "ask" and job.status == "working":
            job.status = "input_required"
        elif job.looks == 2 and not job.key and job.status == "working":
            await self.end(job)
        return self.state(job, whole=self.modern)

    async def cancel(self, job: Job) -> dict[str, Any]:
        if job.status not in ENDED:
            job.status, job.message = "cancelled", "Enough."
            job.ended.set()
            await self.tell(job)
        elif not self.modern:
            raise TaskError(-32602, f"Cannot cancel task: already in terminal status {job.status!r}")
        return {} if self.modern else self.state(job)

    async def wait(self, job: Job, request: Any) -> dict[str, Any]:
        """The result of a legacy task, when it is there; what the task asks is asked here."""
        related = {RELATED: {"taskId": job.id}}
        if job.status == "input_required":
            params = {**offers.FORM, "_meta": {**offers.FORM["_meta"], **related}}
            answer = await self.put(request, "elicitation/create", params)
            await self.end(job, offers.said(offers.dumped(answer)))
        if not job.key and job.status == "working":
            await self.end(job)
        await job.ended.wait()
        if job.error:
            raise TaskError(**job.error)
        return {**job.result, "_meta": {**job.result.get("_meta", {}), **related}}

    async def end(self, job: Job, result: dict[str, Any] | None = None) -> None:
        if job.status in ENDED:
            return
        job.status = "completed"
        job.result = result or {**offers.said("Done at last – é."), "structuredContent": {"big": 2**63}}
        if job.how == "fail":
            job.result = {**offers.said("It failed."), "isError": True}
            job.status = "completed" if self.modern else "failed"
        elif job.how == "refuse":
            job.status, job.error = "failed", {"code": 4711, "message": "Refused – é.", "data": {"why": None}}
        job.ended.set()
        await self.tell(job)

    def state(self, job: Job, *, whole: bool = False) -> dict[str, Any]:
        state: dict[str, Any] = {"taskId": job.id, "status": job.status}
        if job.message:
            state["statusMessage"] = job.message
        state |= {"createdAt": MADE, "lastUpdatedAt": MADE}
        state |= {"ttlMs": 60_000, "pollIntervalMs": 10} if self.modern else {"ttl": 60_000, "pollInterval": 10}
        if whole and job.status == "input_required":
            state["inputRequests"] = {"who": FORM}
        elif whole and job.status == "completed":
            state["result"] = job.result
        elif whole and job.status == "failed":
            state["error"] = job.error
        return state
