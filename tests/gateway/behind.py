"""What stands before and behind an edge that is tried alone: a connection that writes down, and all that answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from trunkline.call.tasks.log import At, Task
from trunkline.errors import TrunklineError
from trunkline.gateway.mcp.sessions import Session
from trunkline.identity import EVERYONE, Scope
from trunkline.model import Call, Caller, Kind, Reply, Snapshot


class Paper:
    """Writes down what is sent, and can be gone."""

    def __init__(self) -> None:
        self.closed = False
        self.peer = ""
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def writable(self) -> None: ...

    @property
    def status(self) -> int:
        return int(self.data.split()[1])


class Behind:
    """Stands for all that is behind an edge, and remembers what it was asked for."""

    def __init__(self, outcome: Reply | TrunklineError | None = None) -> None:
        self.done: list[Any] = []
        self.calls: list[Call] = []
        self.outcome = outcome or Reply(result=b"{}", modern=True)
        self.recording, self.task_log, self.bare = self, self, ""

    def view(self, scope: Scope) -> Any:
        self.done.append("view")
        return SimpleNamespace(snapshot=Snapshot(bare=self.bare), searching=False)

    def view_for(self, scope: Scope, caller: object) -> Any:
        return SimpleNamespace(snapshot=SimpleNamespace(servers={"one": None}))

    async def settle(self, scope: Scope) -> None:
        self.done.append("settle")

    async def in_thread(self, scope: Scope, thread: str) -> Scope:
        return Scope(user=scope.user, thread=f"the thread {thread}")

    def enter(self, call: Call) -> Call:
        return call

    async def reply(self, call: Call) -> Reply:
        self.calls.append(call)
        if isinstance(self.outcome, TrunklineError):
            raise self.outcome
        return self.outcome

    handle = reply

    async def answer_of(self, call: Call, reply: Reply) -> Reply:
        return reply

    # Lists, and those who listen.

    async def listed_for(self, scope: Scope, caller: object, kind: Kind) -> object:
        return "a view"

    def page(self, view: object, kind: Kind, cursor: bytes, **rest: Any) -> bytes:
        return b'{"page":1}'

    def listed(self, scope: Scope, kind: Kind, page: bytes) -> None:
        self.done.append(("listed", scope.user, kind, page, scope.thread))

    def join(self, subscriber: object) -> None:
        self.done.append("join")

    def leave(self, subscriber: object) -> None:
        self.done.append("leave")

    # Tasks.

    def read(self, call: Call, id: str) -> Task:
        return Task(id, "one", f"own {id}", At.MODERN)

    async def follow_task(self, task: Task) -> bool:
        self.done.append(f"follow {task.id}")
        return task.id != "refused"

    def unfollow_task(self, task: Task) -> None:
        self.done.append(f"unfollow {task.id}")

    # Sessions.

    def add(self, session: Session) -> list[Session]:
        self.done.append(session.scope.thread)
        return []

    async def introduction_for(self, scope: Scope, caller: Caller) -> None:
        self.done.append("legacy" if not caller.modern else "modern")

    def remove(self, session: Session) -> None:
        self.done.append("remove")

    async def watch(self, uri: str, scope: Scope, caller: object) -> Reply:
        self.done.append(f"watch {uri}")
        return await self.reply(Call("resources/subscribe", uri, {}, scope=scope))

    async def unwatch(self, uri: str, scope: Scope, caller: object) -> None:
        self.done.append(f"unwatch {uri}")

    async def end_session(self, id: str) -> None:
        self.done.append("end")


def session(replay: int = 0) -> Session:
    return Session("2025-11-25", b"{}", b"", opened_by=EVERYONE, scope=EVERYONE, replay=replay)


async def turns() -> None:
    """Let others have theirs."""
    for _ in range(5):
        await asyncio.sleep(0)
