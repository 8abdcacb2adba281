"""Whether the gateway could listen: the port, who has it, and who could reach us there."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from trunkline.clients.secret import printable
from trunkline.config.options import Config, GatewayConfig
from trunkline.doctor.codes import Severity
from trunkline.doctor.finding import Finding
from trunkline.doctor.watch import sockets_of, tcp_sockets
from trunkline.errors import ConfigError, TrunklineError
from trunkline.gateway.guard import check_exposure, is_loopback
from trunkline.upstream.http1 import HttpClient, Origin, request_bytes
from trunkline.wire.members import decode_object

_LISTENING = "0A"
ASK_SECONDS = 3.0


async def examine_gateway(config: Config) -> list[Finding]:
    """What would keep the gateway from listening, or should."""
    found = _exposure(config)
    gateway = config.gateway
    if gateway.port:
        problem = await asyncio.to_thread(_bound, gateway.host, gateway.port)
        if problem is not None:
            found.append(await _taken(config, problem))
    return found


def _exposure(config: Config) -> list[Finding]:
    gateway, file = config.gateway, str(config.source or "")
    try:
        check_exposure(gateway)
    except ConfigError as error:
        if gateway.token or any(gateway.users.values()) or is_loopback(gateway.host):
            advice = f"{error.hint} For instance the output of this."
            command = 'python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
            return [Finding("TL504", error.message, advice, file=file, command=command)]
        command = "export TRUNKLINE_GATEWAY_TOKEN=\"$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')\""
        return [Finding("TL503", error.message, error.hint, file=file, command=command)]
    return []


def _bound(host: str, port: int) -> OSError | None:
    """Why nobody else could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        return error
    return None


async def _taken(config: Config, problem: OSError) -> Finding:
    gateway, file = config.gateway, str(config.source or "")
    where = f"{gateway.host}:{gateway.port}"
    other = "Choose another port: `trunkline up --port 7421`, or `port` under [gateway]."
    if problem.errno == errno.EACCES:
        return Finding("TL501", f"you may not listen on {where}.", f"Ports below 1024 are root's. {other}", file=file)
    if problem.errno != errno.EADDRINUSE:
        seen = f"nobody can listen on {where}: {problem.strerror or problem}."
        advice = "Write an address of this machine as `host` under [gateway], such as 127.0.0.1."
        return Finding("TL501", seen, advice, file=file)
    who = await asyncio.to_thread(holder, gateway.port)
    servers = await _trunkline(gateway)
    if servers is None:
        return Finding("TL501", f"{who or 'another program'} listens on {where}.", f"End it, or: {other}", file=file)
    if servers == {name for name, spec in config.servers.items() if spec.enabled}:
        advice = "Nothing: it is at work, and takes on changes of the file by itself."
        return Finding("TL502", f"a gateway with these servers is at {where}.", advice, Severity.NOTE, file=file)
    seen = f"a Trunkline of another configuration is at {where}{f' ({who})' if who else ''}."
    return Finding("TL502", seen, f"End it, or: {other}", Severity.WARNING, file=file)


def holder(port: int) -> str:
    """The program that listens on a port, as far as the kernel tells; its arguments may be secret."""
    inodes = {inode for own, state, inode in tcp_sockets() if own == port and state == _LISTENING}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            if sockets_of(int(folder.name)) & inodes:
                name = printable((folder / "comm").read_text().strip())
                mine = " (this one)" if int(folder.name) == os.getpid() else ""
                return f"{name}, process {folder.name}{mine},"
    return ""


async def _trunkline(gateway: GatewayConfig) -> set[str] | None:
    """The servers of the Trunkline that listens there, empty when it does not tell us; `None` when it is none."""
    everywhere = gateway.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on
    origin = Origin("http", "127.0.0.1" if everywhere else gateway.host, gateway.port)
    client = HttpClient()
    try:
        async with asyncio.timeout(ASK_SECONDS):
            if b"MCP is at /mcp" not in (await _get(client, origin, "/", ""))[1]:
                return None
            token = gateway.token or next(iter(gateway.users.values()), "")
            status, body = await _get(client, origin, "/api/v1/servers", token)
    except (TrunklineError, TimeoutError):
        return None
    finally:
        client.close()
    listed: Any = decode_object(body).get("servers") if status == 200 else None
    names = cast("list[dict[str, Any]]", listed) if isinstance(listed, list) else []
    return {str(one.get("name")) for one in names}


async def _get(client: HttpClient, origin: Origin, target: str, token: str) -> tuple[int, bytes]:
    headers = {b"host": origin.authority.encode()}
    if token:
        headers[b"authorization"] = f"Bearer {token}".encode()
    response, _ = await client.send(origin, request_bytes(b"GET", target, headers, b""), limit=2**20)
    try:
        await response.ready()
        return response.status, b"" if response.streams else response.body()
    finally:
        response.close()
