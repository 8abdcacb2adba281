"""Servers that other clients on this machine have, in the admin API: looked at, and taken over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypedDict

from trunkline.config.exposure import is_loopback
from trunkline.errors import ConfigError, NotFoundError, RefusedError
from trunkline.gateway.api.routes import Ask, Body, Given, Route
from trunkline.gateway.api.servers import put_server

if TYPE_CHECKING:
    from trunkline.clients.server import Candidate, Findings
    from trunkline.relay import Relay


class WantedImport(Body, frozen=True):
    """What is taken over."""

    servers: list[str] = []
    """By the names that the client has for them; without any, all that can be."""


class FoundServer(TypedDict):
    """A server in a client's file."""

    name: str
    """What its client calls it."""
    address: str
    """What is started or reached, without secrets."""
    known: str
    """The name under which it is here already."""
    allowed: bool
    """Whether it can be taken over here: what is started only where `allow_commands` is set."""
    command: str
    """What to type instead."""
    notes: list[str]


class LeftAlone(TypedDict):
    """Something that was not taken over, and why."""

    name: str
    reason: str
    command: str
    """What to type instead, where that helps."""


class FoundClient(TypedDict):
    """A client, and the servers in its files."""

    client: str
    title: str
    path: str
    servers: list[FoundServer]
    refused: list[LeftAlone]


class Imported(TypedDict):
    """What was taken over, by the names that it has here, and what was not."""

    added: list[str]
    refused: list[LeftAlone]


def routes(relay: Relay, address: str) -> list[Route]:
    """What can be done with other clients' servers."""
    api = _Clients(relay, address)
    return [
        Route(
            "GET",
            "clients",
            "Clients on this machine, and the servers that they have: for admins, where the gateway is on loopback",
            api.list,
            gives=FoundClient,
            pages="clients",
        ),
        Route(
            "POST",
            "clients/{client}/import",
            "Take over servers of a client; its file is not changed",
            api.take_over,
            WantedImport,
            Imported,
        ),
    ]


class _Clients:
    def __init__(self, relay: Relay, address: str) -> None:
        self._relay, self._address = relay, address

    async def list(self, ask: Ask) -> Given:
        from trunkline.clients.client import CLIENTS
        from trunkline.clients.server import title

        self._check(ask)
        found = [await self._found(client) for client in CLIENTS]
        shown: list[FoundClient] = [
            {
                "client": client,
                "title": title(client),
                "path": ", ".join(str(path) for path in findings.files),
                "servers": [self._shown(client, one) for one in candidates],
                "refused": [{"name": one.name, "reason": one.reason, "command": ""} for one in findings.left_out],
            }
            for client, (findings, candidates) in zip(CLIENTS, found, strict=True)
            if candidates or findings.left_out
        ]
        return Given({"clients": shown})

    async def take_over(self, ask: Ask) -> Given:
        from trunkline.clients.client import CLIENTS

        self._check(ask)
        client = ask.names["client"]
        if client not in CLIENTS:
            raise NotFoundError(f"There is no client {client!r}.", hint=f"There are: {', '.join(CLIENTS)}.")
        _, candidates = await self._found(client)
        chosen = {one.servers[0].name: one for one in candidates}
        wanted: list[str] = ask.body.servers or list(chosen)
        left: list[LeftAlone] = []
        imported: list[str] = []
        for name in dict.fromkeys(wanted):
            reason, command = await self._one(ask, client, chosen.get(name))
            if reason:
                left.append({"name": name, "reason": reason, "command": command})
            else:
                imported.append(chosen[name].name)
        return Given({"added": imported, "refused": left})

    async def _one(self, ask: Ask, client: str, candidate: Candidate | None) -> tuple[str, str]:
        """Take over one server; why not, and what to type instead."""
        if candidate is None:
            return "the client has no such server", ""
        if candidate.known:
            return f"it is here already, as {candidate.known!r}", ""
        if candidate.spec.get("command") and not self._relay.config.gateway.allow_commands:
            return "it is started here, and `allow_commands` is not set", f"trunkline import {client}"
        try:
            await put_server(self._relay, ask, {**candidate.spec, "name": candidate.name}, "", replace=False)
        except (ConfigError, RefusedError) as error:
            return str(error), f"trunkline import {client}"
        return "", ""

    async def _found(self, client: str) -> tuple[Findings, list[Candidate]]:
        from trunkline.clients.client import here
        from trunkline.clients.server import candidates, find, is_trunkline
        from trunkline.tenancy.servers import written

        findings = await asyncio.to_thread(find, [client], here())
        foreign = [one for one in findings.servers if not is_trunkline(one.spec, [self._address])]
        specs = {name: spec for name, spec in self._relay.config.servers.items() if spec.local is None}
        known: dict[str, dict[str, Any]] = {name: written(spec) for name, spec in specs.items()}
        return findings, candidates(foreign, known, self._relay.configured() | set(self._relay.config.servers))

    def _check(self, ask: Ask) -> None:
        """The files are those of whoever runs the gateway: who reaches it from elsewhere has others."""
        ask.require()
        if not is_loopback(self._relay.config.gateway.host):
            raise RefusedError("Clients' files are read where the gateway is on loopback alone.", status=403)

    def _shown(self, client: str, one: Candidate) -> FoundServer:
        from trunkline.clients.secret import shown_command

        allowed = not one.spec.get("command") or self._relay.config.gateway.allow_commands
        return {
            "name": one.servers[0].name,
            "address": shown_command(one.spec),
            "known": one.known,
            "allowed": allowed,
            "command": "" if allowed else f"trunkline import {client}",
            "notes": list(one.notes),
        }
