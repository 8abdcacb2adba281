"""Whether the gateway could run here: its home folder and what lies in it, its port, and who could reach us there."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shlex
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from trunkline.config.exposure import check_exposure, is_loopback
from trunkline.config.options import Config, GatewayConfig
from trunkline.config.server import ServerSpec, shown_url
from trunkline.config.tenancy import IssuerSpec
from trunkline.control.list_store import FORMAT, ListStore
from trunkline.control.pin_store import held_back
from trunkline.control.server_files import file_name
from trunkline.doctor.finding import Deletion, Finding, Folder, Mode, Severity
from trunkline.doctor.watch import sockets_of, tcp_sockets
from trunkline.errors import ConfigError, ProtocolError, StoreError, TrunklineError
from trunkline.sandbox.runtime import INSTALL, is_installed, prepare
from trunkline.tenancy.issuer_keys import read_keys
from trunkline.untrusted import printable
from trunkline.upstream.http1 import HttpClient, request_bytes
from trunkline.upstream.origin import Origin
from trunkline.wire.members import decode_object

PRIVATE = ("seal.key", "seal.key.next", "secrets.json", "secrets.lock")
"""Files that nobody but their owner may read."""


def examine_home(home: Path, servers: Iterable[ServerSpec]) -> list[Finding]:
    """What is wrong with the home folder; one that is not there yet is made when it is needed."""
    if home.is_symlink() and not home.exists():
        seen, advice = "it is a link that leads nowhere.", "Make the folder that it leads to."
        return [_unusable(home, seen, advice, Folder(home))]
    if home.exists() and not home.is_dir():
        return [_unusable(home, "it is a file.", "Move it away, and let a folder be made there.", Folder(home))]
    if not home.exists():
        return _not_made_yet(home)
    mode, owner = stat.S_IMODE(home.stat().st_mode), home.stat().st_uid
    if owner == os.geteuid() and mode & 0o700 != 0o700:
        return [_unusable(home, f"its mode is {mode:o}: you may not use it.", "Let yourself in.", Mode(home, 0o700))]
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        command = shlex.join(["sudo", "chown", "-R", str(os.geteuid()), str(home)])
        seen = "you may not write there: it belongs to somebody else, or the disk is read-only."
        return [_unusable(home, seen, "Make it yours, or set TRUNKLINE_HOME to a folder that is.", command=command)]
    return [*_exposed(home, mode), *_broken_key(home), *_catalogues(home, servers)]


def _not_made_yet(home: Path) -> list[Finding]:
    parent = next(folder for folder in home.absolute().parents if folder.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return []
    advice = "Let yourself write there, or set TRUNKLINE_HOME to a folder that is yours."
    return [_unusable(home, f"it is not there, and cannot be made in {parent}.", advice)]


def _unusable(home: Path, seen: str, advice: str, remedy: Folder | Mode | None = None, *, command: str = "") -> Finding:
    return Finding("TL505", seen, advice, file=str(home), command=command or _command(remedy), remedy=remedy)


def _command(remedy: Folder | Mode | None) -> str:
    return shlex.join(["chmod", f"{remedy.mode:o}", str(remedy.path)]) if isinstance(remedy, Mode) else ""


def _exposed(home: Path, mode: int) -> list[Finding]:
    found: list[Finding] = []
    if mode & 0o022:
        found.append(_private(home, f"its mode is {mode:o}: others may write there.", 0o700))
    for name in PRIVATE:
        file = home / name
        if file.is_file():
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & 0o077:
                found.append(_private(file, f"its mode is {mode:o}: others may read or write it.", 0o600))
    return found


def _private(path: Path, seen: str, mode: int) -> Finding:
    advice = "Keep it to yourself. If others use this machine, think of what is in it as known to them."
    remedy = Mode(path, mode)
    return Finding("TL506", seen, advice, Severity.WARNING, file=str(path), command=_command(remedy), remedy=remedy)


def _broken_key(home: Path) -> list[Finding]:
    file = home / "seal.key"
    if not file.exists() or (file.is_file() and file.stat().st_size == 32):
        return []
    # Not ours to delete: secrets in the encrypted file are lost without the right key.
    advice = (
        "Put back a backup of it. Without one, delete it and a new one is made: ids of running tasks are lost, and "
        "secrets must be set again."
    )
    command = shlex.join(["rm", str(file)])
    return [Finding("TL507", "it is not a key of ours.", advice, file=str(file), command=command)]


async def examine_held(config: Config) -> list[Finding]:
    """What servers say that nobody agreed to."""
    try:
        found = await held_back(config.store, config.home, config.servers)
    except StoreError as error:
        return [Finding("TL524", error.message, error.hint)]
    advice = "See what changed; if it is as it should be, agree to it."
    return [
        Finding(
            "TL407",
            f"{printable(name)} is held back: {printable(why)}.",
            advice,
            severity=Severity.WARNING,
            server=server,
            command=f"trunkline review {shlex.quote(server)}",
        )
        for server, names in found.items()
        for name, why in names.items()
    ]


def _catalogues(home: Path, servers: Iterable[ServerSpec]) -> list[Finding]:
    found: list[Finding] = []
    for spec in servers:
        file = home / "catalogue" / file_name(spec.name)
        if not file.exists() or ListStore(home).load(spec) is not None:
            continue
        remedy = Deletion(file)
        command = shlex.join(["rm", str(file)])
        if _is_other(file, spec):
            seen = (
                "it is of another configuration of the server, or of another version of Trunkline; it is not used, "
                "and replaced as soon as the server is reached."
            )
            found.append(Finding("TL509", seen, "", Severity.NOTE, spec.name, str(file), command, remedy))
        else:
            seen = "it cannot be read, so that the server's tools are missing until it was reached."
            advice = "Delete it: it is made anew as soon as the server is reached."
            found.append(Finding("TL508", seen, advice, Severity.WARNING, spec.name, str(file), command, remedy))
    return found


def _is_other(file: Path, spec: ServerSpec) -> bool:
    try:
        document: Any = json.loads(file.read_bytes())
        return document["format"] != FORMAT or document["fingerprint"] != spec.fingerprint
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


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
    return found + [one for spec in config.issuers.values() for one in await _issuer(spec, str(config.source or ""))]


async def _issuer(spec: IssuerSpec, file: str) -> list[Finding]:
    """Why nobody could be let in with the tokens of an identity provider."""
    try:
        keys = await read_keys(spec)
    except TrunklineError as error:
        other, keyless = isinstance(error, ConfigError), isinstance(error, ProtocolError)
        code = "TL522" if other else "TL523" if keyless else "TL521"
        seen = f"issuer {spec.name!r}: {error.message}"
        advice = error.hint or f"Look whether {shown_url(spec.jwks_url or spec.issuer)} answers from here."
        return [Finding(code, seen, advice, file=file)]
    if not any(key.fits(algorithm) for key in keys for algorithm in spec.algorithms):
        seen = f"issuer {spec.name!r}: none of its keys is for {', '.join(spec.algorithms)}."
        return [Finding("TL523", seen, "Write `algorithms` as it signs its tokens.", file=file)]
    return []


def _exposure(config: Config) -> list[Finding]:
    gateway, file = config.gateway, str(config.source or "")
    try:
        check_exposure(gateway, people=bool(config.issuers))
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
        seen = f"a gateway with these servers is at {where}; it takes on changes of the file by itself."
        return Finding("TL502", seen, "", Severity.NOTE, file=file)
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
            if b"MCP is at /mcp" not in (await _get(client, origin, "/oauth/", ""))[1]:  # where nothing is, it says so
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


def examine_programs(config: Config, home: Path) -> list[Finding]:
    """What is wrong with the sandbox of programs, where some are run; blocks for a moment."""
    wanted = "code" in (config.gateway.expose, *(profile.expose for profile in config.profiles.values()))
    if not config.programs.enabled or not (wanted or (home / "sandbox").is_dir()):
        return []
    if not is_installed():
        return [Finding("TL532", "their sandbox is not installed.", f"{INSTALL}.", Severity.WARNING)]
    try:
        with TemporaryDirectory() as folder:
            runtime = prepare(config.programs, Path(folder))
    except ConfigError as error:
        return [Finding("TL532", error.message, error.hint)]
    if runtime.isolation == "bubblewrap":
        return []
    advice = "Install bubblewrap, and let it make user namespaces."
    return [Finding("TL531", f"{runtime.reason}.", advice, Severity.NOTE, command="sudo apt install bubblewrap")]
