"""The people who may call, their keys, and whom a key lets in: read from the store, remembered until it changes."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypeVar

from trunkline.errors import ConfigError, NotFoundError, TokenRefusedError, VersionConflictError
from trunkline.identity import EVERYONE, Rule, Scope
from trunkline.storage import people as stored
from trunkline.storage.people import ROLES, Key, Rights, Role, User, no_user
from trunkline.storage.store import Change, Store, now
from trunkline.tenancy.keys import KeyMaker
from trunkline.tenancy.limits import check_limits

K = TypeVar("K")
V = TypeVar("V")

REMEMBERED = 20_000
"""Keys and tokens whose owners are known without asking the store; of each a few hundred bytes."""
REFUSED = 1_000
"""Keys that are known to be worth nothing."""
TOKENS = "token of "
"""What stands before a user's name where a key's id would be, when an issuer's token let them in."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}")
_ISSUED_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}:[A-Za-z0-9_.@+|=:,~%-]{1,220}")


@dataclass(frozen=True, slots=True)
class Admission:
    """Whom a key or token lets in, where, and until when."""

    scope: Scope
    expires: float = 0.0
    """Seconds since the epoch; 0 for ever."""
    places: frozenset[str] | None = None
    """The addresses that a token is for, below ours; `None` for all."""
    wider: Scope | None = None
    """What the caller would have with `write_scope`, where its token lacks that."""
    issuer: str = ""
    """Who made the token; empty for keys."""


@dataclass(frozen=True)
class Issued:
    """What a token of an issuer says, all of it checked."""

    issuer: str
    user: str
    role: Literal["", "admin", "member", "reader"]
    """Empty where its user has none."""
    profile: str = ""
    read_only: bool = False
    expires: float = 0.0
    places: frozenset[str] | None = None


ANYONE = Admission(EVERYONE)
"""Nobody asks who it is."""
NOBODY = Admission(Scope(role="nobody"))
"""Who has no key, at a door where that is no reason to be turned away."""

Changed = Callable[[str, str, Scope | None], None]
"""Told whom a key lets in now, by user and id: nobody, or somebody with other rights. Without an id: every key."""


class People:
    """Whoever has the store open has one."""

    def __init__(self, store: Callable[[], Awaitable[Store]], is_open: Callable[[], bool], keys: KeyMaker) -> None:
        self._store, self._is_open, self._keys = store, is_open, keys
        self._admitted: OrderedDict[bytes, Admission] = OrderedDict()
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._named: OrderedDict[str, Scope] = OrderedDict()
        """Users for whom code in this process called."""
        self._issued: OrderedDict[str, User] = OrderedDict()
        """Users of issuers who were let in, as the store has them."""
        self._listeners: list[Changed] = []
        self._additions = 0
        self.anybody = False
        """Whether there is a user; then everyone wants a key."""

    # At the door.

    def known(self, digest: bytes) -> Admission | None:
        """Whose calls are made with a key or token of this SHA-256, if that is remembered."""
        found = self._admitted.get(digest)
        if found is None:
            return None
        if found.expires and found.expires <= time.time():
            del self._admitted[digest]
            return None
        self._admitted.move_to_end(digest)
        return found

    async def admit(self, token: bytes) -> Admission | None:
        """Whose calls are made with a key; `None` when it is nobody's."""
        digest = hashlib.sha256(token).digest()
        id = self._keys.id_of(token)
        if not id or digest in self._refused:
            return None
        admission = await self._look_up(id, token)
        if admission is None:
            _remember(self._refused, digest, None, REFUSED)
            return None
        _remember(self._admitted, digest, admission, REMEMBERED)
        return admission

    async def admit_issued(self, token: bytes, issued: Issued) -> Admission:
        """Let in whom a token means, as `take_in` does, and remember the token."""
        admission = await self.take_in(issued)
        _remember(self._admitted, hashlib.sha256(token).digest(), admission, REMEMBERED)
        return admission

    async def take_in(self, issued: Issued) -> Admission:
        """Let in a user of an issuer, who is noted when first seen; TokenRefusedError when they may nothing here."""
        store = await self._store()
        user = await stored.find_user(store, issued.user)
        if user is None and issued.role:
            self._additions += 1
            self.anybody = True
            user = await stored.add_user(store, self.checked(User(issued.user, "issuer")))
            user = user or await stored.find_user(store, issued.user)  # another process was first
        role = issued.role if user is None or user.role == "issuer" else user.role
        if not role:
            raise TokenRefusedError("This user has no role here.", status=403, hint="Ask for one of the groups it has.")
        if user is None or role == "blocked":
            raise TokenRefusedError("This user is blocked here.", status=403, hint="Ask whoever runs the gateway.")
        _remember(self._issued, user.name, user, REMEMBERED)
        return _issued_admission(replace(user, role=role), issued)

    async def admission_of(self, user: str, id: str) -> Admission | None:
        """Whom a key lets in that was shown before, by its id; `None` when nobody any more."""
        found = await stored.find_key(await self._store(), id)
        return await self._admission(found[0]) if found is not None and found[0].user == user else None

    def forget_issuer(self, issuer: str) -> None:
        """Have tokens of an issuer checked anew, each when it is sent again."""
        for digest in [one for one, admission in self._admitted.items() if admission.issuer == issuer]:
            del self._admitted[digest]

    async def _look_up(self, id: str, token: bytes) -> Admission | None:
        store = await self._store()
        found = await stored.find_key(store, id)
        if found is None or not hmac.compare_digest(found[1], self._keys.digest(token)):
            return None
        return await self._admission(found[0])

    async def _admission(self, key: Key) -> Admission | None:
        if key.expires and key.expires <= now():
            return None
        user = await stored.find_user(await self._store(), key.user)
        scope = scope_of(user, key) if user is not None else None
        return Admission(scope, key.expires / 1000) if scope is not None else None

    # What administrators do.

    async def add_user(self, name: str, role: str = "member", limits: Mapping[str, float] | None = None) -> User:
        """Take in somebody."""
        user = self.checked(User(name, _role(role), dict(limits or {})))
        made = await stored.add_user(await self._store(), user)
        if made is None:
            raise ConfigError(f"There already is a user {name!r}.", hint="See `trunkline user list`.")
        self._additions += 1
        self.anybody = True
        self._named.pop(name, None)
        return made

    @staticmethod
    def checked(user: User) -> User:
        """A user who may be kept."""
        if not is_own_name(user.name) and not _ISSUED_NAME.fullmatch(user.name):
            hint = "Use letters, digits and any of _ . @ + -"
            raise ConfigError(f"{user.name!r} cannot be a user's name.", hint=hint)
        check_limits(user.limits)
        return replace(user, limits={name: float(most) for name, most in user.limits.items()})

    async def scope(self, name: str) -> Scope:
        """The scope of a user for whom code in this process calls: they are who it says, and have their own limits."""
        found = self._named.get(name)
        if found is None:
            user = await stored.find_user(await self._store(), name) if self._is_open() else None
            found = Scope(user=name)
            if user is not None:
                found = Scope(user=name, joined=user.created, limits=tuple(sorted(user.limits.items())))
            _remember(self._named, name, found, REMEMBERED)
        return found

    async def update_user(
        self, name: str, *, role: str = "", limits: Mapping[str, float] | None = None, version: int = 0
    ) -> User:
        """Change what somebody may; with a version, only if nobody else did meanwhile."""
        before = await self.user(name)
        wanted = replace(
            before,
            role=_role(role) if role else before.role,
            limits=before.limits if limits is None else dict(limits),
            version=version or before.version,
        )
        made = await stored.update_user(await self._store(), self.checked(wanted))
        if made is None:
            raise VersionConflictError(f"User {name!r} was changed by somebody else.", hint="Look, and try again.")
        await self._recheck_user(name)
        return made

    async def remove_user(self, name: str, *, version: int = 0) -> None:
        """Forget somebody with all that is theirs; whatever they have open ends."""
        await self.user(name)
        if not await stored.remove_user(await self._store(), name, version=version):
            raise VersionConflictError(f"User {name!r} was changed by somebody else.", hint="Look, and try again.")
        self._issued.pop(name, None)
        self._tell(name, "", None)
        await self._look()

    async def user(self, name: str) -> User:
        """Somebody by name."""
        found = await stored.find_user(await self._store(), name) if self._is_open() else None
        if found is None:
            raise no_user(name)
        return found

    async def users(self, *, after: str = "", limit: int = 1000) -> list[User]:
        """Everybody by name, those behind one."""
        return await stored.list_users(await self._store(), after=after, limit=limit) if self._is_open() else []

    async def make_key(
        self, user: str, *, name: str = "", rights: Rights | None = None, expires: int = 0
    ) -> tuple[Key, str]:
        """A key for somebody, and its text, which nobody can ever see again."""
        if not self._is_open():
            raise no_user(user)
        if (await self.user(user)).role == "issuer":
            hint = f"To let them have keys, give them a role here: `trunkline user set {user} --role member`."
            raise ConfigError(f"Who {user!r} is, and what they may, their issuer's tokens say.", hint=hint)
        made = self._keys.make()
        wanted = Key(made.id, user, name, rights or Rights(), expires=expires)
        key = await stored.add_key(await self._store(), wanted, made.digest)
        if key is None:
            raise no_user(user)
        return key, made.text

    async def keys(self, user: str = "", *, after: str = "", limit: int = 1000) -> list[Key]:
        """Keys by their id, those behind one, of one user or of all."""
        return await stored.list_keys(await self._store(), user, after=after, limit=limit) if self._is_open() else []

    async def revoke_key(self, id: str, *, user: str = "") -> Key:
        """Let nobody in with a key any more; of a user if one is given, since others' keys are unknown ones."""
        found = await stored.remove_key(await self._store(), id, user) if self._is_open() else None
        if found is None:
            raise NotFoundError(f"There is no key {id!r}.", hint="See `trunkline key list`.")
        await self._recheck(id)
        return found

    # When things change.

    def on_change(self, listener: Changed) -> None:
        """Hear whose admissions changed."""
        self._listeners.append(listener)

    async def follow(self, changes: Sequence[Change] | None) -> None:
        """Others changed something; `None` when it is not known what."""
        if changes is None:
            self._named.clear()
            for key in {one.scope.key for one in self._admitted.values() if not one.issuer}:
                await self._recheck(key)
            for user in list(self._issued):
                await self._recheck_user(user)
        for change in changes or ():
            if change.noun == "key":
                await self._recheck(change.name)
            elif change.noun == "user" and change.name == stored.GONE:
                self._tell(change.owner, "", None)
            elif change.noun == "user":
                await self._recheck_user(change.owner)
        if changes is None or any(change.noun == "user" for change in changes):
            await self._look()

    async def _look(self) -> None:
        """Find out whether there is anybody; who is added meanwhile counts."""
        before = self._additions
        found = await stored.any_user(await self._store())
        if before == self._additions:
            self.anybody = found

    async def _recheck_user(self, user: str) -> None:
        """Somebody was changed."""
        self._named.pop(user, None)
        for key in await stored.list_keys(await self._store(), user):
            await self._recheck(key.id)
        before = self._issued.get(user)
        if before is None:
            return
        now = await stored.find_user(await self._store(), user)
        if now is None:
            self._issued.pop(user, None)
            self._tell(user, "", None)
        else:
            self._issued[user] = now
            if (before.role, before.limits) != (now.role, now.limits):
                self._tell(user, TOKENS + user, None)

    async def _recheck(self, id: str) -> None:
        """A key was changed, or is gone: whoever was let in with it is let in anew."""
        store = await self._store()
        found = await stored.find_key(store, id)
        user = await stored.find_user(store, found[0].user) if found is not None else None
        now = scope_of(user, found[0]) if found is not None and user is not None else None
        for digest, admission in list(self._admitted.items()):
            if admission.scope.key == id and admission.scope != now:
                del self._admitted[digest]
        self._tell(user.name if user is not None else "", id, now)

    def _tell(self, user: str, key: str, now: Scope | None) -> None:
        self._named.pop(user, None)
        if not key or key == TOKENS + user:
            scopes = [(digest, one.scope) for digest, one in self._admitted.items() if one.scope.user == user]
            for digest in [digest for digest, scope in scopes if key in ("", scope.key)]:
                del self._admitted[digest]
        for listener in self._listeners:
            listener(user, key, now)


def is_own_name(name: str) -> bool:
    """Whether a user who is no issuer's can be called so."""
    return _NAME.fullmatch(name) is not None


def expiry_of(text: str | float) -> int:
    """The moment a key ends, as the store keeps it, of `30d`, `12h`, seconds from now, or a date; 0 for never."""
    if not text:
        return 0
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]+)?)([smhdw]?)", str(text))
    if found is not None:
        moment = now() + round(
            float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[found[2]] * 1000
        )
    else:
        try:
            date = datetime.fromisoformat(str(text))
        except ValueError:
            raise ConfigError(f"{text!r} is no time.", hint="Write 30d, 12h, or a date such as 2027-01-31.") from None
        moment = round((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)
    if not now() < moment < 2**53:
        raise ConfigError(f"A key cannot end at {text!r}.", hint="Choose a time to come.")
    return moment


def scope_of(user: User, key: Key) -> Scope | None:
    """Whose calls they are that are made with a key; `None` when its user is blocked, or let in by tokens alone."""
    if user.role in ("blocked", "issuer"):
        return None
    rights = key.rights
    rule = Rule(
        servers=frozenset(rights.servers) if rights.servers else None,
        tools=rights.tools,
        read_only=rights.read_only or user.role == "reader",
    )
    rules = () if rule == Rule() else (rule,)
    limits = tuple(sorted(user.limits.items()))
    # An admin's key that may not do everything is no admin's: with it, one could be made that may.
    role = "member" if user.role == "admin" and (rules or rights.profile) else user.role
    return Scope(
        user=user.name,
        joined=user.created,
        key=key.id,
        role=role,
        rules=rules,
        limits=limits,
        profile=rights.profile,
    )


def _issued_admission(user: User, issued: Issued) -> Admission:
    key = Key(TOKENS + user.name, user.name, rights=Rights(issued.profile, read_only=issued.read_only))
    scope = scope_of(user, key)
    assert scope is not None, "a token gives a role"
    wider = scope_of(user, replace(key, rights=Rights(issued.profile))) if issued.read_only else None
    wider = wider if wider is not None and wider.rules != scope.rules else None
    return Admission(scope, issued.expires, issued.places, wider, issued.issuer)


def _role(role: str) -> Role:
    for known in ROLES:
        if role == known:
            return known
    raise ConfigError(f"There is no role {role!r}.", hint=f"There are {', '.join(ROLES)}.")


def _remember(memory: OrderedDict[K, V], key: K, found: V, most: int) -> None:
    memory[key] = found
    if len(memory) > most:
        memory.popitem(last=False)
