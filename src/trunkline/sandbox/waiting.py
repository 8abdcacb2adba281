"""Programs that wait for a person: data in the store, sealed, owned, dated, and taken up once; and their live calls."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from trunkline.config.programs import ProgramsSection
from trunkline.errors import BusyError, CredentialError, NotFoundError, RefusedError
from trunkline.model import Call, Parked
from trunkline.sandbox.run import Kept
from trunkline.storage import credentials as stored
from trunkline.storage import programs
from trunkline.storage.credentials import CredentialName
from trunkline.storage.engine import Session
from trunkline.storage.programs import ProgramRow
from trunkline.storage.store import now
from trunkline.tenancy.tenancy import Tenancy
from trunkline.wire.envelope import INVALID_PARAMS
from trunkline.wire.members import decode, encode_sorted
from trunkline.wire.seal import PROGRAM_MARK, context_of

FIELD = "program"
"""What the vault calls what a program holds."""
_TOKEN = 24


class Waiting:
    """Keeps programs, and gives each back once, to whoever it belongs to, with the request that it belongs to."""

    def __init__(self, tenancy: Tenancy, config: Callable[[], ProgramsSection]) -> None:
        self._tenancy, self._config = tenancy, config

    async def keep(self, call: Call, kept: Kept, tools: Sequence[str]) -> str:
        """Keep a program; gives what its caller hands back with the answer."""
        config, user = self._config(), call.scope.user
        token = PROGRAM_MARK + base64.urlsafe_b64encode(os.urandom(_TOKEN)).decode()
        id, since = id_of(token), now()
        row = ProgramRow(
            id, user, call.scope.person, _bound(call), ",".join(tools)[:2000], since, since + int(config.keep * 1000)
        )
        store = await self._tenancy.store()
        async with store.transaction() as session:
            for old in await programs.expire(session):
                await self._forget(session, old)
            if await programs.count(session, user) >= config.waiting_per_user:
                most = config.waiting_per_user
                raise BusyError(f"{most} programs wait for answers already.", hint="Answer some, or drop them.")
            await programs.add(session, row)
            await self._tenancy.vault.put(_name(row), msgspec.msgpack.encode(kept), session=session)
        return token

    async def look(self, token: str, call: Call) -> Kept:
        """What a program holds; it goes on waiting."""
        store = await self._tenancy.store()
        row = await programs.find(store, id_of(token))
        return await self._opened(store, _checked(row, call))

    async def take(self, token: str, call: Call) -> Kept:
        """Take a program out: from now on nobody else can."""
        async with (await self._tenancy.store()).transaction() as session:
            row = _checked(await programs.take(session, id_of(token)), call)
            kept = await self._opened(session, row)
            await self._forget(session, row)
        return kept

    async def drop(self, token: str) -> None:
        """Nobody will answer."""
        await self._drop(id_of(token), None)

    async def remove(self, id: str, user: str | None) -> str:
        """Drop one by its id, of a user if one is given; whose it was."""
        row = await self._drop(id, user)
        if row is None:
            raise NotFoundError(f"No program {id[:40]!r} waits.")
        return row.owner

    async def listed(self, user: str | None, *, after: str, limit: int) -> list[ProgramRow]:
        """Those that wait, of one user or of all."""
        if not self._tenancy.is_open:
            return []
        return await programs.listed(await self._tenancy.store(), user, after=after, limit=limit)

    async def forget(self, user: str) -> None:
        """Drop all of a user who is gone."""
        if self._tenancy.is_open:
            async with (await self._tenancy.store()).transaction() as session:
                for row in await programs.expire(session, user):
                    await self._forget(session, row)

    async def _drop(self, id: str, user: str | None) -> ProgramRow | None:
        if not self._tenancy.is_open:
            return None
        async with (await self._tenancy.store()).transaction() as session:
            row = await programs.remove(session, id, user)
            if row is not None:
                await self._forget(session, row)
        return row

    async def _opened(self, session: Session, row: ProgramRow) -> Kept:
        found = await stored.find(session, _name(row))
        try:
            if found is None:
                raise CredentialError("What it holds is gone.")
            return msgspec.msgpack.decode(await self._tenancy.vault.content(session, found), type=Kept)
        except (CredentialError, msgspec.DecodeError):
            raise RefusedError(
                "What the program holds cannot be opened: it was changed, or sealed with a key that is gone.",
                code=INVALID_PARAMS,
                hint="Send the request anew.",
            ) from None

    async def _forget(self, session: Session, row: ProgramRow) -> None:
        name = _name(row)
        await self._tenancy.vault.remove(user=name.user, issuer=name.issuer, field=FIELD, session=session)


@dataclass(frozen=True)
class _Held:
    user: str
    calls: Mapping[int, Parked]
    timer: asyncio.TimerHandle


class LiveCalls:
    """What of waiting programs is no data: legacy servers go on with a call that they hold open, or not at all.

    Held for as long as a question may be open; what nobody takes is withdrawn.
    """

    def __init__(self, withdraw: Callable[[Parked], None]) -> None:
        self._withdraw = withdraw
        self._held: dict[str, _Held] = {}

    def check(self, user: str, calls: Mapping[int, Parked], most: int) -> None:
        """Refuse a user to whom too many wait already."""
        held = sum(len(one.calls) for one in self._held.values() if one.user == user)
        if calls and held + len(calls) > most:
            raise BusyError(
                f"{held} calls of your programs wait for answers already.",
                hint="Answer some, try again later, or raise `max_parked`.",
            )

    def hold(self, program: str, user: str, calls: Mapping[int, Parked], seconds: float) -> None:
        """Keep the calls of a program that waits from now on."""
        if calls:
            timer = asyncio.get_running_loop().call_later(seconds, self.drop, program)
            self._held[program] = _Held(user, calls, timer)

    def take(self, program: str) -> Mapping[int, Parked]:
        """The calls of a program that goes on; those of one that waited too long, or elsewhere, are gone."""
        held = self._held.pop(program, None)
        if held is None:
            return {}
        held.timer.cancel()
        return held.calls

    def drop(self, program: str) -> None:
        """Nobody will answer."""
        for parked in self.take(program).values():
            self._withdraw(parked)

    def close(self, user: str | None = None) -> None:
        """Let go of all, or of those of a user."""
        for program in [name for name, one in self._held.items() if user in (None, one.user)]:
            self.drop(program)


def _checked(row: ProgramRow | None, call: Call) -> ProgramRow:
    """A program for whoever it belongs to; for anybody else there is none."""
    if row is None or row.member != call.scope.person or row.bound != _bound(call):
        raise RefusedError(
            "No program waits for this: it was answered already, its time is up, or it belongs to another request.",
            code=INVALID_PARAMS,
            hint="Send the request anew, without `requestState`.",
        )
    return row


def id_of(token: str) -> str:
    """What a program is listed as; it does not tell the token."""
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def _name(row: ProgramRow) -> CredentialName:
    return CredentialName(row.owner, "", row.id, FIELD)


def _bound(call: Call) -> bytes:
    """What a program is bound to: the user, the thread, the profile, and the request itself, however it is spelt."""
    scope = call.scope
    arguments = encode_sorted(decode(call.params.get("arguments", b"{}")))
    return context_of(scope.person.encode(), scope.thread.encode(), scope.profile.encode(), arguments)
