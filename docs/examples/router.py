"""Three servers, one router: who takes which call, and what happens when a server fails."""

from __future__ import annotations

import asyncio

from trunkline import Annotations, RouteContext, ServerWeight, Tool, ToolRouter
from trunkline.balance.routing import HealthUpdated
from trunkline.errors import NoServerError, UnreachableError

QUERY = Tool("query_users", category="database", annotations=Annotations(read_only_hint=True))
DELETE = Tool("delete_user", category="database", annotations=Annotations(destructive_hint=True))


async def main() -> None:
    router = ToolRouter(
        strategy="least-loaded",
        enable_affinity=True,
        server_weights=[ServerWeight("db-primary", 80), ServerWeight("db-replica", 20)],
    )
    router.register_server("db-primary", ["database"])
    router.register_server("db-replica", ["database"])
    router.register_server("models", ["ai"])
    router.on(HealthUpdated, lambda event: print(f"{event.server_id} healthy: {event.healthy}"))

    decision = router.route(DELETE)
    print(f"{DELETE.name} -> {decision.server_id}, others: {decision.alternates}")

    ann = RouteContext(session_id="ann", tenant="acme")
    servers = {router.route(QUERY, ann).server_id for _ in range(5)}
    print(f"Ann's five calls went to {len(servers)} server")

    async def attempt(server_id: str) -> str:
        if server_id in servers:
            raise UnreachableError(f"Server {server_id!r} is down.")
        return "ok"

    print(f"with one server down: {await router.run(QUERY, ann, attempt)}")

    router.update_health_status("db-primary", False)
    try:
        router.route(DELETE)
    except NoServerError as error:
        print(error)


if __name__ == "__main__":
    asyncio.run(main())
