"""Resources and tasks that callers follow, on connections of their own or on the one that all share."""

from __future__ import annotations

from trunkline.call.links import Links
from trunkline.call.stages.entry import find_resource, unknown
from trunkline.call.tasks.log import At, Task
from trunkline.callers import Callers
from trunkline.control.fleet import Fleet
from trunkline.control.own_lists import OwnLists
from trunkline.control.own_subscriptions import OwnSubscriptions
from trunkline.control.supervisor import Supervisor
from trunkline.identity import Scope
from trunkline.model import Call, Caller, Kind, Reply, Snapshot
from trunkline.tools.builtin import CATALOGUE


class Following:
    """Begins and ends what callers follow; the news reach whoever hears what servers say outside calls."""

    def __init__(
        self, callers: Callers, fleet: Fleet, own_lists: OwnLists, own: OwnSubscriptions, links: Links
    ) -> None:
        self._callers, self._fleet, self._own_lists, self._own, self._links = callers, fleet, own_lists, own, links

    async def watch(self, uri: str, scope: Scope, caller: Caller) -> Reply:
        """Follow a resource that a caller has."""
        if uri == CATALOGUE and self._callers.view(scope).resources:
            return Reply(result=b"{}")  # whoever hears of changed lists hears of it
        if find_resource(uri, self._callers.view_for(scope, caller).snapshot) is None:
            await self._own_lists.refresh(scope, caller, (Kind.RESOURCE, Kind.TEMPLATE))
        found = self._supervisor_of(uri, "resources/subscribe", self._callers.view_for(scope, caller).snapshot, scope)
        own = await self._own.watch(found.spec.name, uri, scope, caller)
        return own if own is not None else await found.subscription.watch(uri)

    async def unwatch(self, uri: str, scope: Scope, caller: Caller) -> Reply:
        """Stop following a resource."""
        snapshot = self._callers.view_for(scope, caller).snapshot
        if uri == CATALOGUE and find_resource(uri, snapshot) is None:
            return Reply(result=b"{}")
        own = await self._own.unwatch(uri, scope, caller)
        if own is not None:
            return own
        return await self._supervisor_of(uri, "resources/unsubscribe", snapshot, scope).subscription.unwatch(uri)

    async def follow_task(self, task: Task) -> bool:
        """Follow a task. Legacy servers tell of their tasks unasked, or never."""
        found = self._fleet.supervisor(task.server)
        return found is not None and (task.at is At.LEGACY or await found.subscription.follow_task(task.own))

    def unfollow_task(self, task: Task) -> None:
        """Stop following a task."""
        found = self._fleet.supervisor(task.server)
        if found is not None and task.at is At.MODERN:
            found.subscription.unfollow_task(task.own)

    def _supervisor_of(self, uri: str, method: str, snapshot: Snapshot, scope: Scope) -> Supervisor:
        entry = find_resource(uri, snapshot) or self._links.find(scope, uri, snapshot)
        server = (entry.members or (entry.server,))[0] if entry is not None else snapshot.bare
        found = self._fleet.supervisor(server)
        if found is None:
            raise unknown(Call(method, uri, {}), snapshot)
        return found
