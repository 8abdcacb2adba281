"""Calls of modern callers that wait for an answer: kept here, while the caller holds a sealed state."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable

from trunkline.errors import BusyError, RefusedError
from trunkline.model import Call, Parked, Reply
from trunkline.wire.envelope import INVALID_PARAMS
from trunkline.wire.members import decode, encode_sorted
from trunkline.wire.seal import MARK, PROGRAM_MARK, Seal, context_of

_KEY = 16
_AGAIN = b"again"
_WRAPPED = b"server:"


class Parking:
    """Parked calls by number; each is given back once, to the caller it belongs to, and before its time is up."""

    def __init__(self, *, most: int, seconds: float, withdraw: Callable[[Parked], None]) -> None:
        self._most, self._seconds, self._withdraw = most, seconds, withdraw
        # A parked call ends with us, and so may the key of its state.
        self._seal = Seal()
        self._parked: dict[bytes, tuple[Parked, asyncio.TimerHandle, tuple[str, str]]] = {}
        self._answered: dict[bytes, asyncio.Task[Reply]] = {}
        """What became of calls that somebody else than their caller answered, for when the caller asks."""
        self.left: Callable[[bytes], None] = lambda key: None
        """Told which call waits no longer."""
        self._of_user: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def seconds(self) -> float:
        """How long a call waits."""
        return self._seconds

    def park(self, call: Call, parked: Parked, asked: Callable[[bytes], None] = lambda key: None) -> str:
        """Keep a live call, and make the state that its caller gives back with the answers; `asked` is told its key."""
        user = call.scope.app, call.scope.user
        if self._of_user[user] >= self._most:
            self._withdraw(parked)
            whose = f"{self._most} calls of user {user[1]!r}" if user[1] else f"{self._most} calls"
            raise BusyError(
                f"{whose} wait for answers already.", hint="Answer some, try again later, or raise `max_parked`."
            )
        key = os.urandom(_KEY)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._expire, key)
        self._parked[key] = parked, timer, user
        self._of_user[user] += 1
        asked(key)
        return self._sealed(key, call)

    def again(self, call: Call) -> str:
        """A state for a call that did not run, and is to be sent anew once the caller has done what was asked."""
        return self._sealed(_AGAIN, call)

    def wrap(self, call: Call, state: bytes) -> str:
        """A server's own state, bound to the user it was made for."""
        return self._sealed(_WRAPPED + state, call)

    def opens(self, state: str, call: Call) -> bool:
        """Whether a state was made for this user and this request."""
        try:
            self._seal.open(state, _context(call))
        except ValueError:
            return False
        return True

    def take(self, key: bytes, resume: Callable[[Parked], asyncio.Task[Reply]]) -> bool:
        """Let somebody else than the caller go on with a call, whose outcome the caller gets; false if it is gone."""
        parked = self._take_out(key)
        if parked is None:
            return False
        self._answered[key] = resume(parked)
        asyncio.get_running_loop().call_later(self._seconds, self._answered.pop, key, None)
        return True

    def claim(
        self, state: str, call: Call, check: Callable[[Parked], None]
    ) -> Parked | bytes | asyncio.Task[Reply] | None:
        """The live call that a state stands for, taken out; or the server's own state; `None`: send the call anew.

        A call whose answers `check` refuses stays where it is. Of one that somebody else answered, the outcome.
        """
        try:
            content = self._seal.open(state, _context(call))
        except ValueError:
            raise RefusedError(
                "`requestState` does not belong to this request, or was given out before a restart.",
                code=INVALID_PARAMS,
                hint="Send the request anew, without it.",
            ) from None
        expiry, key = int.from_bytes(content[:8], "big"), content[8:]
        if time.time() * 1000 > expiry:
            raise RefusedError("The time to answer is up.", code=INVALID_PARAMS, hint="Send the request anew.")
        if key == _AGAIN:
            return None
        if key.startswith(_WRAPPED):
            return key[len(_WRAPPED) :]
        if key in self._answered:
            return self._answered.pop(key)
        if key in self._parked:
            check(self._parked[key][0])
        parked = self._take_out(key)
        if parked is None:
            raise RefusedError("The question was answered already.", code=INVALID_PARAMS, hint="Send the request anew.")
        return parked

    def close(self, user: str | None = None) -> None:
        """Let go of every call, or of those of a user."""
        for key, (_, _, owner) in list(self._parked.items()):
            if user is None or owner[1] == user:
                self._expire(key)

    def _sealed(self, content: bytes, call: Call) -> str:
        expiry = int((time.time() + self._seconds) * 1000)
        return self._seal.close(expiry.to_bytes(8, "big") + content, _context(call))

    def _expire(self, key: bytes) -> None:
        parked = self._take_out(key)
        if parked is not None:
            self._withdraw(parked)

    def _take_out(self, key: bytes) -> Parked | None:
        parked, timer, user = self._parked.pop(key, (None, None, ("", "")))
        if timer is not None:
            timer.cancel()
            self.left(key)
            self._of_user[user] -= 1
            if not self._of_user[user]:
                del self._of_user[user]
        return parked


def is_ours(state: str) -> bool:
    """Whether a state was made here rather than by a server."""
    return state.startswith(MARK)


def is_program(state: str) -> bool:
    """Whether a state stands for a program that waits in the store."""
    return state.startswith(PROGRAM_MARK)


def _context(call: Call) -> bytes:
    """What a state is bound to: the user, the profile, and the request itself, however it is spelt."""
    arguments = call.params.get("arguments", b"{}")
    return context_of(
        call.scope.person.encode(),
        call.scope.profile.encode(),
        call.method.encode(),
        call.name.encode(),
        encode_sorted(decode(arguments)),
    )
