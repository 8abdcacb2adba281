"""Whoever calls: what is theirs is looked up when they come, and what they have is seen from here."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from trunkline.config.options import Config
from trunkline.control.fleet import Fleet
from trunkline.control.own_lists import OwnLists
from trunkline.control.registry import Registry
from trunkline.control.signing_in import SigningIn
from trunkline.control.tenants import Tenants
from trunkline.control.views import Views
from trunkline.identity import EVERYONE, Scope
from trunkline.model import Answer, Call, Caller, Kind, View
from trunkline.questions.bridge import OpenPage
from trunkline.tasks import in_slices
from trunkline.tenancy.tenancy import Tenancy
from trunkline.upstream.connection import nobody_asked


@dataclass(frozen=True)
class Edge:
    """What whoever serves callers does for the relay."""

    ask_session: Callable[[str, str, bytes], asyncio.Future[Answer]] = nobody_asked
    """Asks the caller of a session what a server asks outside a call."""
    open_page: OpenPage | None = None
    """Lets a person answer what must not pass the caller."""
    is_present: Callable[[str], bool] = lambda user: False
    """Whether a user still listens."""
    watched: bool = False
    """Somebody may look at how calls go: there are records of them."""


class Callers:
    """Knows who is here, and what each of them has at this moment."""

    def __init__(
        self,
        config: Callable[[], Config],
        tenancy: Tenancy,
        tenants: Tenants,
        signing_in: SigningIn,
        seen: tuple[Registry, Fleet, Views, OwnLists],
        came: Callable[[Scope], None],
    ) -> None:
        self._came, self._signing_in = came, signing_in
        self._config, self._tenancy, self._tenants = config, tenancy, tenants
        self._registry, self._fleet, self._views, self._own_lists = seen
        tenancy.sign_ins.several = lambda: tenancy.people.anybody or bool(config().gateway.users)

    # When they come.

    def knows(self, scope: Scope) -> bool:
        """Whether nothing has to be looked up before a caller is served."""
        return not scope.user or not self._tenancy.is_open or self._tenants.is_here(scope.user)

    async def welcome(self, scope: Scope, tool: str = "") -> None:
        """Look up what a caller has, and have it run; a call of a tool that is there waits for no server beside it."""
        if not self.knows(scope):
            settle = self._config().gateway.settle
            self._came(scope)
            await self._tenancy.sign_ins.look_up(scope.user)
            await self._tenants.begin(scope.user)
            await in_slices(self._views.prepare(scope, self._registry.snapshot))
            if not self.knows(scope) and tool not in self.view(scope).snapshot.tools:
                await self._tenants.arrive(scope.user, settle)
            await self._signing_in.arrive(scope.user, settle)
        await in_slices(self._views.prepare(scope, self._registry.snapshot))

    async def in_thread(self, scope: Scope, thread: str) -> Scope:
        """A caller in one of its threads."""
        threads = self._tenancy.threads
        return threads.known(scope, thread) or await threads.enter(scope, thread)

    async def scope_of(self, user: str = "", thread: str = "", profile: str = "", tool: str = "") -> Scope:
        """The scope of a caller in this process, who is who they say, and of the tool that it calls."""
        scope = await self._tenancy.people.scope(user) if user and self._tenancy.is_open else Scope(user=user)
        if profile:
            scope = dataclasses.replace(scope, profile=profile)
        if thread:
            scope = await self.in_thread(scope, thread)
        if not self.knows(scope):
            await self.welcome(scope, tool)
        return scope

    def wants_user(self, user: str) -> bool:
        """Whether somebody has to be in the store before anything is kept for them: not those whom the file names."""
        return bool(user) and user not in self._config().gateway.users

    # What they have.

    def view(self, scope: Scope = EVERYONE) -> View:
        """What a caller has, and what lists show them."""
        return self._views.of(scope, self._registry.snapshot)

    def view_for(self, scope: Scope, caller: Caller) -> View:
        """What one caller has: as all like it have it, but for what servers show to this caller alone."""
        return self._own_lists.view(scope, caller, self._config) or self._views.of(scope, self._registry.snapshot)

    async def listed_for(self, scope: Scope, caller: Caller, kind: Kind) -> View:
        """What a list shows one caller, after what it did on connections of its own."""
        await self.settle(scope.user)
        await self._own_lists.refresh(scope, caller, (kind,))
        return self.view_for(scope, caller)

    async def settle(self, user: str = "") -> None:
        """Wait a moment for servers of which nothing is known yet, and have stale lists of a caller read again."""
        await self._registry.settle(self._config().gateway.settle)
        self._fleet.refresh(user)

    async def settle_for(self, call: Call) -> None:
        """Its server may only just be starting, or have listed the name to this caller alone."""
        await self._registry.settle(self._config().gateway.settle)
        await self._own_lists.refresh(call.scope, call.caller)
