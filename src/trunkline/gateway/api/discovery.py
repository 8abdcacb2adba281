"""What a discovery endpoint offers, in the admin API: to be looked at, and to be registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from trunkline.errors import RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.gateway.api.servers import ShownServer, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trunkline.install.services import Service, ServiceDirectory
    from trunkline.relay import Relay
    from trunkline.tenancy.servers import Registration


class WantedService(Body, frozen=True):
    """For whom a service is registered."""

    scope: Literal["app", "user"] = "app"
    user: str = ""


class ShownService(TypedDict):
    """A server that is offered, and whether it was registered."""

    name: str
    address: str
    display_name: str
    description: str
    tags: list[str]
    registered: bool
    problem: str


def routes(relay: Relay) -> list[Route]:
    """What can be done with what is offered."""
    api = _Services(relay)
    return [
        Route(
            "GET",
            "discovery",
            "What the discovery endpoint offers; nothing of it is started",
            api.list,
            gives=ShownService,
            pages="services",
            query=("user",),
            refuses=(502,),
        ),
        Route(
            "POST",
            "discovery/{name}",
            "Register what is offered; done twice, it is registered once",
            api.register,
            WantedService,
            ShownServer,
            status=201,
            or_status=200,
            refuses=(409, 502),
        ),
    ]


class _Services:
    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def _services(self) -> ServiceDirectory[Registration]:
        from trunkline.install.services import ServiceDirectory

        kept = self._relay.tenancy.servers.of
        return ServiceDirectory(lambda: self._relay.config, kept, self._relay.configured, self._put)

    async def list(self, ask: Ask) -> Given:
        ask.require()
        return Given(
            {"services": [shown_service(one) for one in await self._services().offered(ask.query.get("user", ""))]}
        )

    async def register(self, ask: Ask) -> Given:
        ask.require()
        wanted: WantedService = ask.body
        if (wanted.scope == "user") != bool(wanted.user):
            raise RefusedError('Give `"scope": "user"` and `user` together.', status=422)
        made = await self._services().register(ask.names["name"], wanted.user)
        kept = made or await self._relay.tenancy.servers.get(wanted.user, ask.names["name"])
        return Given(shown(kept), 201 if made is not None else 200, kept.version)

    async def _put(self, wanted: Mapping[str, Any], user: str) -> Registration:
        most = self._relay.config.limits.servers if user else 0
        taken = self._relay.configured()
        return await self._relay.tenants.register(wanted, user=user, most=most, taken=taken)


def shown_service(service: Service) -> ShownService:
    """A service for programs to read."""
    said = service.wanted
    return {
        "name": service.name,
        "address": service.address,
        "display_name": str(said.get("display_name", "")),
        "description": str(said.get("description", "")),
        "tags": [str(tag) for tag in said.get("tags", ()) if isinstance(said.get("tags"), list)],
        "registered": service.registered,
        "problem": service.problem,
    }
