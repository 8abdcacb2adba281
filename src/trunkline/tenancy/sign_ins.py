"""Who is signed in where. OAuth itself is loaded when somebody signs in, or has a sign-in, and not before."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trunkline.config.server import ServerSpec
from trunkline.errors import AuthorizationNeededError, ConfigError, StoreError
from trunkline.identity import Scope, owner_of, unit_name
from trunkline.storage.store import Change, Store
from trunkline.tasks import Tasks
from trunkline.tenancy.credentials import Vault
from trunkline.upstream.egress import Egress
from trunkline.upstream.http1 import Response

if TYPE_CHECKING:
    from trunkline.tenancy.oauth.clients import Shown
    from trunkline.tenancy.oauth.credential import Credential
    from trunkline.tenancy.oauth.sign_in import Flow

MOST_BROUGHT = 10_000
"""Users whose tokens are kept to be exchanged; of more, the newest."""
CALLBACK = "/oauth/callback"
DOCUMENT = "/oauth/client-metadata.json"
GATE = "/oauth/start/"
NOUN = "credential"
SIGNED_IN, WAITING = "signed-in", "waiting"

Changed = Callable[[str, str], None]
"""Told whose sign-in, at which server, is another now."""


@dataclass(frozen=True)
class Begun:
    """A sign-in that waits for a person."""

    url: str
    """Where the person goes; it is theirs alone."""
    state: str
    """What the attempt is known by."""


@dataclass(frozen=True)
class Gate:
    """What stands before a sign-in of a user."""

    owner: str
    """Whom it is for; empty for an admin, who signs in for everybody."""
    server: str
    url: str
    """Where the person goes from there."""
    cookie: tuple[str, str]
    """Name and value of what their browser shows when it comes back: no other may finish what it began."""

    def lets_in(self, scope: Scope | None) -> bool:
        """Whether it is for whoever has this scope."""
        if scope is None:
            return False
        return scope.user == self.owner if self.owner else scope.role == "admin"


@dataclass(frozen=True)
class Credentials:
    """The tokens of a sign-in that was made elsewhere."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires: float = 0.0
    """When the access token ends, in seconds since the epoch; 0 where nobody said so."""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Connected:
    """A sign-in, without a token in sight."""

    server: str
    issuer: str
    state: str
    """`signed-in`, or `expired` when the person has to sign in again."""
    scopes: tuple[str, ...] = ()
    since: float = 0.0
    expires: float = 0.0
    """When the access token ends; 0 when that is not known. It is renewed if `renewable`."""
    renewable: bool = False
    reason: str = ""
    account: str = ""
    """Who signed in, as the authorization server calls them; empty where it does not say."""


class SignIns:
    """The sign-ins of all users at all servers."""

    def __init__(
        self, vault: Vault, store: Callable[[], Awaitable[Store]], is_open: Callable[[], bool], tasks: Tasks
    ) -> None:
        self.vault, self.store, self.is_open, self.tasks = vault, store, is_open, tasks
        self.http = Egress()
        self.address = ""
        """Where people reach the gateway, and authorization servers send them back to; empty where there is none."""
        self.several: Callable[[], bool] = lambda: False
        """Whether there are users: then what nobody in particular signed in to is nobody's."""
        self.spec_of: Callable[[str], ServerSpec | None] = lambda server: None
        """How a server is configured now."""
        self.exchanging: Callable[[], Sequence[str]] = tuple
        """The servers that are given what callers' tokens are exchanged for."""
        self.replaced: Callable[[str], object] = lambda server: None
        """Told that a server may know us as somebody else now: what it answered before counts no more."""
        self.shown: dict[str, Shown] = {}
        """Where what is secret of the servers' configured clients may be sent."""
        self._brought: dict[str, tuple[str, float]] = {}
        """The newest token of each user who came with one, and when it ends; only where such are exchanged."""
        self._known: dict[str, dict[tuple[str, str], SignIn]] = {}
        """By server, then by its configuration and whose they are."""
        self._signed: dict[str, set[str]] = {}
        self._were_several = False
        self._listeners: list[Changed] = []
        self._flow: Flow | None = None
        self.renewed = 0
        """Tokens that were renewed."""

    # For connections.

    def authorize(self, spec: ServerSpec, user: str) -> SignIn | None:
        """The credential with which a user's connections to a server are made."""
        if not spec.url or spec.has_authorization:
            return None
        whose = self.whose(spec, user)
        known = self._known.setdefault(spec.name, {})
        found = known.get((spec.fingerprint, whose))
        if found is None:
            for key in [key for key in known if key[0] != spec.fingerprint]:
                del known[key]  # it is configured otherwise now
            found = known[spec.fingerprint, whose] = SignIn(self, spec, whose)
        return found

    def release(self, server: str) -> None:
        """A server is let go: who has it next, under its name, begins with what is kept then."""
        self._known.pop(server, None)

    def whose(self, spec: ServerSpec, user: str) -> str:
        """Whose connections a user's calls take: their own if they are signed in, or if others' would be taken else."""
        if not user or spec.oauth.exchanges:
            return user
        if not self._signed.get(user) and not self._signed.get("") and not self._brought:
            return ""  # as it is for most
        if not (self.is_signed(user, spec.name) or self.is_signed("", spec.name)):
            return ""
        return "" if spec.oauth.shared or spec.oauth.for_machines or owner_of(spec.name) else user

    def owner(self, spec: ServerSpec, user: str) -> str:
        """Whose credential it is that a user has at a server."""
        if spec.oauth.shared or (spec.oauth.for_machines and not spec.oauth.exchanges):
            return ""
        return owner_of(spec.name) or user

    def bring(self, user: str, token: str, until: float) -> None:
        """A caller was let in by a token that may be exchanged for what servers take; kept in memory alone."""
        servers = self.exchanging()
        if not servers:
            return
        is_new = not self.brought(user) and user in self._signed  # they came before, with a key, or long ago
        self._brought.pop(user, None)
        self._brought[user] = token, until
        while len(self._brought) > MOST_BROUGHT:
            del self._brought[next(iter(self._brought))]
        for server in servers if is_new else ():
            for listener in self._listeners:
                listener(user, server)

    def brought(self, user: str) -> str:
        """What a user came with; empty when it has ended, or they came with a key."""
        token, until = self._brought.get(user, ("", 0.0))
        return token if until > time.time() else ""

    def is_signed(self, user: str, server: str) -> bool:
        """Whether a user has a sign-in at a server, as far as was looked up; or what takes the place of one."""
        if server in self._signed.get(user, ()):
            return True
        if not self._brought:
            return False
        spec = self.spec_of(server) if user in self._brought else None
        return spec is not None and spec.oauth.exchanges and bool(self.brought(user))

    def places(self, user: str) -> Sequence[str]:
        """The servers where `is_signed` may be true of a user."""
        signed = self._signed.get(user, ())
        return (*signed, *(self.exchanging() if user in self._brought else ()))

    async def look_up(self, user: str) -> None:
        """Learn where a user is signed in."""
        if user not in self._signed and self.is_open():
            names = await self.vault.names(user=user)
            self._signed[user] = {name.server for name in names if name.field == "tokens"}

    def forget(self, user: str) -> None:
        """A user is no more; whoever is given the name next has none of their connections."""
        self._signed.pop(user, None)
        self._brought.pop(user, None)
        servers: list[str] = []
        for server, known in list(self._known.items()) if user else ():
            kept = {key: one for key, one in known.items() if one.owner != user}
            if len(kept) < len(known):
                self._known[server] = kept
                servers.append(server)
        for server in servers:
            for listener in self._listeners:
                listener(user, server)

    # For people.

    async def begin(self, spec: ServerSpec, user: str, *, by_operator: bool = False) -> Begun | None:
        """Begin a sign-in of a user at a server; `None` when nothing is missing.

        Where there are users its address leads to a page of ours first: whoever opens it must be the one it is for, or
        somebody could have another sign in to what they themselves began. The operator is believed.
        """
        if self.authorize(spec, user) is None:
            why = "its headers have a credential already" if spec.url else "it is started here"
            raise ConfigError(f"Server {unit_name(spec.name)!r} wants no sign-in: {why}.")
        owner, several = self.owner(spec, user), self.several()
        if not owner and several and not spec.oauth.shared and not spec.oauth.for_machines:
            raise ConfigError(
                f"There are users, and each signs in to {unit_name(spec.name)!r} for themselves.",
                hint="Use the key of a user, or set `shared = true` in [servers.NAME.oauth].",
            )
        return await self.flow.begin(
            spec, owner, self.sign_in(spec, owner), paged=(several or bool(owner)) and not by_operator
        )

    async def adopt(self, spec: ServerSpec, user: str, given: Credentials) -> None:
        """Keep a sign-in that a user made elsewhere; from now on it is used, renewed and ended as one made here."""
        if self.authorize(spec, user) is None or spec.oauth.for_machines:
            raise ConfigError(f"Server {unit_name(spec.name)!r} wants no sign-in of a person.")
        await self.flow.adopt(spec, self.owner(spec, user), given)

    async def gate(self, attempt: str) -> Gate | None:
        """The page before a sign-in: whom it is for, and where it leads; `None` when it is unknown or over."""
        return await self.flow.gate(attempt) if self.is_open() else None

    async def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> str:
        """An authorization server sent somebody back; why it did not work, or nothing."""
        return await self.flow.finish(query, cookies)

    async def wait(self, attempt: str) -> str:
        """Wait until a sign-in is done, here or in another process; why it failed, or nothing."""
        return await self.flow.wait(attempt)

    async def outcome(self, attempt: str, owner: str, server: str, patience: float) -> str | None:
        """How a sign-in goes after so many seconds: `waiting`, why it failed, or nothing; `None` for one unknown."""
        return await self.flow.outcome(attempt, owner, server, patience) if self.is_open() else None

    def document(self) -> dict[str, Any] | None:
        """What is said of us at the address that is our id to authorization servers; only where that is https."""
        if not self.address.startswith("https://"):
            return None
        from trunkline.tenancy.oauth.registration import metadata_document

        return metadata_document(f"{self.address}{DOCUMENT}", f"{self.address}{CALLBACK}")

    async def connections(self, user: str) -> list[Connected]:
        """Where a user is signed in."""
        if not self.is_open() or not any(name.field == "tokens" for name in await self.vault.names(user=user)):
            return []
        return await self.flow.connections(user)

    async def sign_out(self, user: str, server: str) -> bool:
        """Forget a sign-in, and have its tokens revoked where that can be asked for; false when there is none."""
        return self.is_open() and await self.flow.sign_out(user, server)

    @property
    def flow(self) -> Flow:
        """The flow that people take part in."""
        if self._flow is None:
            from trunkline.tenancy.oauth.sign_in import Flow

            self._flow = Flow(self)
        return self._flow

    def sign_in(self, spec: ServerSpec, owner: str) -> SignIn:
        """The sign-in of an owner, whether or not connections are made with it yet."""
        known = self._known.setdefault(spec.name, {})
        key = spec.fingerprint, "" if owner_of(spec.name) else owner
        found = known.get(key)
        if found is None:
            found = known[key] = SignIn(self, spec, key[1])
        return found

    # News.

    def on_change(self, listener: Changed) -> None:
        """Hear whose sign-in, at which server, is another."""
        self._listeners.append(listener)

    async def changed(self, owner: str, server: str) -> None:
        """Somebody signed in or out, here; whoever calls from now on goes by it."""
        self._reload(owner, server)
        self._signed.pop(owner, None)
        await self.look_up(owner)
        for listener in self._listeners:
            listener(owner, server)

    async def follow(self, changes: Sequence[Change] | None) -> None:
        """Others changed something; `None` when it is not known what."""
        if self._were_several != self.several():  # what was the one user's is for them alone, or is theirs again
            self._were_several = self.several()
            await self.look_up("")
            for server in list(self._signed.get("", ())):
                await self.changed("", server)
        if changes is None:
            self._signed.clear()
            await self.look_up("")
            for server, known in self._known.items():
                for one in known.values():
                    one.reload()
                self.replaced(server)
            return
        for owner, server in {(one.owner, one.name) for one in changes if one.noun == NOUN and one.name}:
            before = self.is_signed(owner, server)
            self._signed.pop(owner, None)
            await self.look_up(owner)
            self._reload(owner, server)
            if before != self.is_signed(owner, server):
                for listener in self._listeners:
                    listener(owner, server)

    def _reload(self, owner: str, server: str) -> None:
        self.replaced(server)
        for one in self._known.get(server, {}).values():
            if one.owner == owner:
                one.reload()

    def close(self) -> None:
        """Let go of the connections to authorization servers."""
        self.http.close()


class SignIn:
    """One user's sign-in at one server, or the want of it."""

    def __init__(self, all: SignIns, spec: ServerSpec, user: str) -> None:
        self.spec, self.user = spec, user
        self.owner = owner_of(spec.name) or user
        self.challenge = b""
        """What the server last said that it wants."""
        self._all = all
        self._credential: Credential | None = None
        self._looked = False

    def headers(self, method: str, url: str) -> bytes | None:
        if self._credential is not None:
            return self._credential.headers(method, url)
        return b"" if self._looked else None

    async def fetch(self) -> None:
        if not self._looked:
            await self._all.look_up(self.owner)
            held = self._all.is_signed(self.owner, self.spec.name) and not self._is_personal
            if held or (self.spec.oauth.for_machines and (self.owner or not self.spec.oauth.exchanges)):
                _ = self.credential
            self._looked = True
        if self._credential is not None:
            await self._credential.fetch()

    async def challenged(self, response: Response, sent: bytes) -> bool:
        self.challenge = response.headers.get(b"www-authenticate", b"") or b"Bearer"
        return self._credential is not None and await self._credential.challenged(response, sent)

    async def is_withheld(self) -> bool:
        if not self._is_personal:
            return False
        try:
            await self._all.look_up(self.owner)
        except StoreError:
            return True
        return self._all.is_signed(self.owner, self.spec.name)

    def accepted(self) -> None:
        if self._credential is not None:
            self._credential.accepted()

    def needed(self, status: int) -> AuthorizationNeededError:
        name = unit_name(self.spec.name)
        why = self._credential.problem if self._credential is not None else ""
        return AuthorizationNeededError(
            f"Server {name!r} wants authorization (HTTP {status}).{f' {why}' if why else ''}",
            hint=f"Run `trunkline login {name}`, or give it an `Authorization` header in its `headers`.",
        )

    def reload(self) -> None:
        """What is kept is another, or whose it is."""
        self._looked = False
        if self._is_personal:
            self._credential = None
        if self._credential is not None:
            self._credential.reload()

    @property
    def credential(self) -> Credential:
        """The credential itself."""
        if self._credential is None:
            from trunkline.tenancy.oauth.credential import Credential

            self._credential = Credential(self._all, self)
        return self._credential

    @property
    def _is_personal(self) -> bool:
        """Where there are users, what the operator signed in to without sharing it is for none of them."""
        shared = self.spec.oauth.shared or self.spec.oauth.for_machines
        return not self.owner and self._all.several() and not shared
