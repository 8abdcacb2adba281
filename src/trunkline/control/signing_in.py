"""Where sign-ins meet servers: begun for a caller, felt by connections and lists, told to whoever was refused."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from trunkline.config.server import ServerSpec
from trunkline.control.fleet import Fleet
from trunkline.control.own_lists import OwnLists
from trunkline.control.supervisor import CHANGED
from trunkline.errors import AuthorizationNeededError, NotFoundError, TrunklineError
from trunkline.events import Emitter, Event
from trunkline.identity import Scope, server_id
from trunkline.model import Caller
from trunkline.tasks import Tasks
from trunkline.tenancy.sign_ins import Begun, SignIns
from trunkline.upstream.connection_key import ConnectionKey


@dataclass(frozen=True)
class SignInNeeded(Event):
    """A call was refused until its caller's person signs in to its server."""

    user: str
    server: str


class SigningIn:
    """Signs callers in to the servers of a fleet."""

    def __init__(self, sign_ins: SignIns, fleet: Fleet, own_lists: OwnLists, tasks: Tasks) -> None:
        self._sign_ins, self._fleet, self._own_lists, self._tasks = sign_ins, fleet, own_lists, tasks
        self._events = Emitter(SignInNeeded)
        self.on, self.off = self._events.on, self._events.off
        sign_ins.spec_of = fleet.specs.get
        sign_ins.exchanging = lambda: [name for name, spec in fleet.specs.items() if spec.oauth.exchanges]
        fleet.on_end = sign_ins.release
        sign_ins.on_change(self._changed)

    def spec(self, scope: Scope, name: str) -> ServerSpec:
        """A server by the name that a caller has for it."""
        found = self._fleet.specs.get(server_id(scope.user, name)) or self._fleet.specs.get(name)
        if found is None:
            raise NotFoundError(f"There is no server {name!r}.")
        return found

    async def begin(self, scope: Scope, spec: ServerSpec, *, by_operator: bool = False) -> Begun | None:
        """Begin a sign-in of a caller at a server; `None` when nothing is missing."""
        sign_in = self._sign_ins.authorize(spec, "")
        if sign_in is not None and not sign_in.challenge and not spec.oauth.for_machines:
            with suppress(TrunklineError):  # it only has to say what it wants
                await self._fleet.pool.open(spec)
        return await self._sign_ins.begin(spec, scope.user, by_operator=by_operator)

    async def needed(self, scope: Scope, spec: ServerSpec, error: AuthorizationNeededError) -> AuthorizationNeededError:
        """The error with the address where the caller's person signs in, where there is one."""
        self._events.emit(SignInNeeded(scope.user, spec.name))
        if spec.oauth.shared and scope.role != "admin":
            error.hint = "It is an admin's to sign in to, for everybody: tell one."
        elif self._sign_ins.address and not error.url:
            with suppress(TrunklineError):
                begun = await self._sign_ins.begin(spec, scope.user)
                if begun is not None:
                    error.url, error.attempt = begun.url, begun.state
                    error.hint = f"Sign in, and try again: {begun.url}"
        return error

    async def arrive(self, user: str, patience: float) -> None:
        """Have a user's own connections to where they are signed in; waits a moment for what is listed there."""
        await self._sign_ins.look_up(user)
        found = [self._fleet.specs.get(server) for server in sorted({*self._sign_ins.places(user)})]
        opening = [
            self._tasks.start(self._open(user, spec), name=f"{spec.name} for {user}")
            for spec in found
            if spec is not None and self._sign_ins.is_signed(user, spec.name) and self._sign_ins.whose(spec, user)
        ]
        if opening:
            await asyncio.wait(opening, timeout=patience)

    async def _open(self, user: str, spec: ServerSpec) -> None:
        with suppress(TrunklineError):  # whoever calls it is told
            await self._fleet.pool.open(spec, ConnectionKey(spec.name, spec.fingerprint, user=user))
            await self._own_lists.refresh(Scope(user=user), Caller())

    def _changed(self, owner: str, server: str) -> None:
        self._tasks.start(self._reconnect(owner, server), name=f"sign-in at {server}")

    async def _reconnect(self, owner: str, server: str) -> None:
        spec, supervisor = self._fleet.specs.get(server), self._fleet.supervisor(server)
        if spec is None or supervisor is None:
            return
        user = owner if owner and not server.startswith(f"{owner}/") else ""
        await self._fleet.pool.end_credential(server, user)
        if not user:
            supervisor.try_again()
            return
        if self._sign_ins.is_signed(user, server):
            await self._open(user, spec)
        else:
            self._own_lists.sign_out(user, server)
        for method in CHANGED:
            self._fleet.pool.hear(spec, method, b"", user=user)
