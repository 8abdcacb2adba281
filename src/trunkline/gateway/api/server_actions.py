"""What is done with a server that is there: its log, a restart, switching it on and off, what ails it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from trunkline.errors import BusyError, NotFoundError, RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.gateway.api.servers import ShownServer, stopped_view
from trunkline.gateway.api.status import described, name_for, views_of
from trunkline.identity import owner_of, server_id, unit_name
from trunkline.model import Kind, ServerView, State
from trunkline.tenancy.servers import check_member_server

if TYPE_CHECKING:
    from trunkline.config.server import ServerSpec
    from trunkline.doctor.diagnosis import Examined
    from trunkline.doctor.finding import Finding
    from trunkline.relay import Relay

LINES = 200
MOST_LINES = 5000
PATIENCE = 5.0
"""Seconds that a request waits for a server to be there again."""
EXAMINED_AT_ONCE = 2
EXAMINATION = 45.0
"""Seconds that a server has to be examined in."""


class WantedCheck(Body, frozen=True):
    """An address to be tried."""

    url: str
    transport: str = ""
    headers: dict[str, str] = {}


class ShownLog(TypedDict):
    """What a server wrote to its standard error, the newest last."""

    lines: list[str]


class Fix(TypedDict):
    """What sets something right, as far as that can be done here."""

    action: str
    """`restart`, `sign-in` or `enable`: what is done with the server."""
    label: str


class ShownFinding(TypedDict):
    """One thing that is wrong, or worth knowing."""

    code: str
    level: str
    message: str
    """What it is, in a few words."""
    cause: str
    """What was seen."""
    do: str
    command: str
    """What to type, where that helps."""
    fix: Fix | None
    documentation: str


class Findings(TypedDict):
    """What the doctor found; nothing where all is well."""

    findings: list[ShownFinding]


class Checked(TypedDict):
    """What is at an address."""

    state: str
    reason: str
    tools: int
    needs_sign_in: bool
    findings: list[ShownFinding]


def routes(relay: Relay) -> list[Route]:
    """What can be done with servers that are there."""
    api = _Actions(relay)
    whose = ("user",)
    return [
        Route(
            "GET",
            "servers/{name}/log",
            "The last lines of a server's standard error: for admins, and for its owner",
            api.log,
            gives=ShownLog,
            query=("lines", *whose),
        ),
        Route("POST", "servers/{name}/restart", "Start a server anew", api.restart, gives=ShownServer, query=whose),
        Route("POST", "servers/{name}/enable", "Switch a server on", api.enable, gives=ShownServer, query=whose),
        Route(
            "POST",
            "servers/{name}/disable",
            "Switch a server off, until it is switched on again; the configuration's file is not changed",
            api.disable,
            gives=ShownServer,
            query=whose,
        ),
        Route(
            "POST",
            "servers/{name}/doctor",
            "Find out what ails a server",
            api.doctor,
            gives=Findings,
            query=whose,
            refuses=(429, 504),
        ),
        Route(
            "POST",
            "servers/check",
            "Try an address, and keep nothing of it",
            api.check,
            WantedCheck,
            Checked,
            refuses=(429, 504),
        ),
    ]


class _Actions:
    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._examining = 0

    async def log(self, ask: Ask) -> Given:
        server = await self._own(ask)
        text = ask.query.get("lines", str(LINES))
        if not text.isdecimal() or not 1 <= int(text[:6]) <= MOST_LINES:
            raise RefusedError(f"`lines` is a number from 1 to {MOST_LINES}.", status=422)
        return Given({"lines": self._relay.last_words(server).splitlines()[-int(text) :]})

    async def restart(self, ask: Ask) -> Given:
        server = await self._own(ask)
        await self._relay.tenants.restart(server, PATIENCE)
        return Given(await self._shown(ask, server))

    async def enable(self, ask: Ask) -> Given:
        return await self._switch(ask, on=True)

    async def disable(self, ask: Ask) -> Given:
        return await self._switch(ask, on=False)

    async def _switch(self, ask: Ask, *, on: bool) -> Given:
        server = await self._own(ask)
        await self._relay.tenants.switch(unit_name(server), user=owner_of(server), on=on)
        return Given(await self._shown(ask, server))

    async def doctor(self, ask: Ask) -> Given:
        server = await self._own(ask)
        spec = await self._spec(server)
        view = self._relay.snapshot.server(server)
        state = view.state if view is not None else State.STOPPED
        return Given({"findings": await self._findings(spec, view, state)})

    async def check(self, ask: Ask) -> Given:
        from trunkline.config.reading import server_of

        body: WantedCheck = ask.body
        said = {"url": body.url, "transport": body.transport, "headers": body.headers}
        wanted: dict[str, Any] = {name: value for name, value in said.items() if value}
        if ask.scope.role != "admin":
            check_member_server(wanted)
            wanted |= {"public_only": not self._relay.config.gateway.allow_private}
        examined = await self._examine(server_of("checked", wanted, os.environ))
        tools = examined.view.lists.get(Kind.TOOL) if examined.view is not None else None
        found = examined.findings
        asks = any(one.code in ("TL311", "TL312") for one in found)
        state = State.READY if examined.view is not None else State.NEEDS_AUTHORIZATION if asks else State.UNREACHABLE
        return Given({
            "state": state.value,
            "reason": "" if examined.view is not None else " ".join(one.seen for one in found),
            "tools": len(tools.items) if tools is not None else 0,
            "needs_sign_in": asks,
            "findings": [_shown(one) for one in found],
        })  # fmt: skip

    async def _findings(self, spec: ServerSpec, view: ServerView | None, state: State) -> list[ShownFinding]:
        from trunkline.doctor.finding import Finding, Severity
        from trunkline.doctor.offer import examine_lists

        if state is State.STOPPED:
            off = Finding("TL101", "it is switched off.", "Switch it on.", Severity.NOTE, server=spec.name)
            return [_shown(off) | {"message": "Switched off", "fix": {"action": "enable", "label": "Switch on"}}]  # type: ignore[list-item] - the same members
        if view is not None and state is State.NEEDS_AUTHORIZATION:
            found: Sequence[Finding] = [Finding("TL311", view.reason, "Sign in to it.", server=spec.name)]
        elif view is not None and state is State.READY:
            found = examine_lists(spec, dict(view.lists))
        else:
            found = (await self._examine(spec)).findings
        held = self._relay.trust.kept(spec.name).held
        if held:
            names, do = ", ".join(sorted(held)[:5]), "Look at what changed, and agree to it or not: `trunkline review`."
            found = [*found, Finding("TL407", f"held back: {names}.", do, server=spec.name)]
        return [_shown(one) for one in found]

    async def _examine(self, spec: ServerSpec) -> Examined:
        """Start or reach a server beside the one that runs, if it does, and see how that goes."""
        from trunkline.doctor.diagnosis import open_room

        if self._examining >= EXAMINED_AT_ONCE:
            raise BusyError("Other servers are examined at this moment.", hint="Try again in a moment.")
        self._examining += 1
        try:
            async with (
                asyncio.timeout(EXAMINATION),
                open_room(os.environ, Path.cwd(), None, EXAMINATION / 3, time.time()) as room,
            ):
                return await room.examine(spec)
        except TimeoutError:
            raise RefusedError(f"It took more than {EXAMINATION:g} s.", status=504) from None
        finally:
            self._examining -= 1

    async def _own(self, ask: Ask) -> str:
        """The server that is meant, if it is the asker's to do something with; one that is not theirs is unknown."""
        name, scope = ask.names["name"], ask.scope
        user = ask.query.get("user", "" if scope.role == "admin" else scope.user)
        if user != scope.user:
            ask.require()
        await self._relay.welcome(scope)
        if scope.role == "admin":
            server = name if "/" in name else server_id(user, name)
            if await self._exists(server):
                return server
        elif scope.user and await self._exists(server_id(scope.user, name)) and await self._has(ask, name):
            return server_id(scope.user, name)
        elif any(name_for(scope, view.name) == name for view in await views_of(self._relay, scope)):
            raise RefusedError("Only an admin may do this with a server that is everybody's.", status=403)
        raise NotFoundError(f"There is no server {name!r}.")

    async def _has(self, ask: Ask, name: str) -> bool:
        """Whether a key sees one of its user's own servers: a narrowed one sees what its view has."""
        if not ask.scope.rules and not ask.scope.profile:
            return True
        return any(name_for(ask.scope, view.name) == name for view in await views_of(self._relay, ask.scope))

    async def _exists(self, server: str) -> bool:
        if self._relay.tenants.spec_of(server) is not None:
            return True
        try:
            await self._spec(server)
        except NotFoundError:
            return False
        return True

    async def _spec(self, server: str) -> ServerSpec:
        found = self._relay.tenants.spec_of(server)
        if found is None:
            found = (await self._relay.tenancy.servers.get(owner_of(server), unit_name(server))).spec
        return found

    async def _shown(self, ask: Ask, server: str) -> dict[str, Any]:
        view = self._relay.snapshot.server(server) or stopped_view(await self._spec(server))
        return {**described(self._relay, view, ask.scope), "enabled": view.state is not State.STOPPED}


_FIXES: dict[str, Fix] = {
    "TL311": {"action": "sign-in", "label": "Sign in"},
    "TL312": {"action": "sign-in", "label": "Sign in again"},
    **dict.fromkeys(
        ("TL206", "TL208", "TL209", "TL302", "TL303", "TL314", "TL402"), Fix(action="restart", label="Try again")
    ),
}
"""What of the doctor's advice can be done here."""


def _shown(one: Finding) -> ShownFinding:
    return {
        "code": one.code,
        "level": one.severity.value,
        "message": one.title,
        "cause": one.seen,
        "do": one.advice,
        "command": one.command,
        "fix": _FIXES.get(one.code),
        "documentation": one.documentation,
    }
