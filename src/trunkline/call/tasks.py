"""Tasks that a modern server goes on with by itself: their ids are given out sealed, to the user they belong to."""

from __future__ import annotations

from trunkline.call.stage import Handler
from trunkline.errors import RefusedError
from trunkline.model import Call, Reply
from trunkline.wire.envelope import INVALID_PARAMS, read_string
from trunkline.wire.members import decode, encode, read_members, write_members
from trunkline.wire.seal import Seal, context_of

EXTENSION = b'"io.modelcontextprotocol/tasks"'
METHODS = frozenset(("tasks/get", "tasks/update", "tasks/cancel"))


class TaskStage:
    """Seals the id of a new task, and opens it again to find the server that has the task."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    async def __call__(self, call: Call, call_next: Handler) -> Reply:
        if call.method in METHODS and call.caller.modern:
            return await self._about(call, call_next)
        reply = await call_next(call)
        if EXTENSION in call.caller.capabilities and reply.modern and b'"taskId"' in reply.result:
            members = read_members(reply.result)
            if read_string(members.get("resultType", b"")) == "task":
                task = encode([call.server, read_string(members.get("taskId", b""))])
                sealed = self._seal.close(task, _context(call))
                reply.result = write_members({**members, "taskId": encode(sealed)})
        return reply

    async def _about(self, call: Call, call_next: Handler) -> Reply:
        """A request about a task goes to its server under the server's own id."""
        sealed = call.params.get("taskId", b"")
        try:
            call.server, own = decode(self._seal.open(read_string(sealed), _context(call)))
        except ValueError:
            raise RefusedError("There is no such task.", code=INVALID_PARAMS) from None
        call.name = own
        call.params = {**call.params, "taskId": encode(own)}
        call.raw_params = b""
        reply = await call_next(call)
        if b'"taskId"' in reply.result:
            reply.result = write_members({**read_members(reply.result), "taskId": sealed})
        return reply


def _context(call: Call) -> bytes:
    return context_of(b"task", call.scope.app.encode(), call.scope.user.encode())
