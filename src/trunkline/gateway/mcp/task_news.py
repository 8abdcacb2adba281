"""News of tasks, for one modern caller that listens."""

from __future__ import annotations

from collections.abc import Callable

from trunkline.call.tasks.log import At, Task
from trunkline.errors import TrunklineError
from trunkline.identity import Scope
from trunkline.model import Call, Caller
from trunkline.relay import Relay
from trunkline.tasks import Tasks
from trunkline.wire.members import encode, read_members, write_members

METHOD = "notifications/tasks"
AT_MOST = 1000
"""Tasks that one subscription may follow."""


class TaskNews:
    """Follows tasks from `follow` to `close`, and tells of them in this era's words."""

    def __init__(
        self, relay: Relay, tasks: Tasks, caller: Caller, scope: Scope, tell: Callable[[str, bytes], None]
    ) -> None:
        self._relay, self._tasks, self._caller, self._scope, self._tell = relay, tasks, caller, scope, tell
        self._followed: dict[str, Task] = {}
        self._early: list[bytes] | None = []
        self._looking: dict[str, bool] = {}
        """Tasks whose state is being asked for, and whether it changed again meanwhile."""

    async def follow(self, ids: list[str]) -> None:
        """Follow those tasks that are this caller's and whose server agrees."""
        for id in list(dict.fromkeys(ids))[:AT_MOST]:
            try:
                task = self._relay.task_log.read(self._about(id), id)
                if task.server not in self._relay.view_for(self._scope, self._caller).snapshot.servers:
                    continue  # with this key, or in this thread, its server is not there
                self._followed[id] = task
                if task.at is At.HERE or not await self._relay.follow_task(task):
                    del self._followed[id]
            except TrunklineError:
                continue

    @property
    def granted(self) -> list[str]:
        """The tasks that are followed."""
        return sorted(self._followed)

    def begin(self) -> None:
        """From now on news are told; what came earlier comes first."""
        early, self._early = self._early or [], None
        for params in early:
            self._tell(METHOD, params)

    def changed(self, task: Task, params: bytes) -> None:
        """A task's server told of it."""
        if task.id not in self._followed:
            return
        if task.at is At.MODERN:
            self._push(write_members({**read_members(params), "taskId": encode(task.id)}))
        elif task.id in self._looking:
            self._looking[task.id] = True
        else:
            # A legacy server tells the status alone, and news in this era carry the result or the questions as well.
            self._looking[task.id] = False
            self._tasks.start(self._look(task), name=f"news of a task at {task.server}")

    def close(self) -> None:
        """Follow nothing any longer."""
        for task in self._followed.values():
            self._relay.unfollow_task(task)
        self._followed.clear()

    async def _look(self, task: Task) -> None:
        try:
            while task.id in self._followed:
                self._looking[task.id] = False
                reply = await self._relay.handle(self._about(task.id))
                if not reply.error:
                    members = read_members(reply.result)
                    self._push(write_members({name: value for name, value in members.items() if name != "resultType"}))
                if not self._looking[task.id]:
                    return
        except TrunklineError:
            pass  # the caller can still ask, and will hear why not
        finally:
            self._looking.pop(task.id, None)

    def _push(self, params: bytes) -> None:
        if self._early is None:
            self._tell(METHOD, params)
        else:
            self._early.append(params)

    def _about(self, id: str) -> Call:
        return Call("tasks/get", id, {"taskId": encode(id)}, scope=self._scope, caller=self._caller)
