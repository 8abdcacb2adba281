"""Which servers are the same one, what each is called here, and which entries are Trunkline itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from trunkline.clients.server import Server
from trunkline.config.client_forms import REFERENCE


@dataclass(frozen=True)
class Candidate:
    """A server that may be taken over, with everyone who has it."""

    name: str
    """What it will be called in `trunkline.toml`."""
    servers: tuple[Server, ...]
    known: str = ""
    """The name under which it is in `trunkline.toml` already."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The entry that is taken over: the first one's."""
        return self.servers[0].spec

    @property
    def notes(self) -> tuple[str, ...]:
        """What its reader should know."""
        return self.servers[0].notes

    @property
    def clients(self) -> tuple[str, ...]:
        """Who has it."""
        return tuple(dict.fromkeys(server.client for server in self.servers))


def candidates(
    servers: Iterable[Server], known: Mapping[str, Mapping[str, Any]], taken: Collection[str] = ()
) -> list[Candidate]:
    """The servers, each once, and each with a name of its own among those that are known or otherwise taken."""
    groups: list[list[Server]] = []
    for server in servers:
        group = next((group for group in groups if same(group[0].spec, server.spec)), None)
        if group is None:
            groups.append([server])
        else:
            group.append(server)
    names = {*known, *taken}
    made: list[Candidate] = []
    for group in groups:
        ours = next((name for name, spec in known.items() if same(spec, group[0].spec)), "")
        name = ours or _free(group[0], names)
        names.add(name)
        made.append(Candidate(name, tuple(group), ours))
    return made


def same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two entries start or reach the same server; a secret that was moved into a variable counts as equal."""
    for key in ("command", "url", "cwd"):
        if ours.get(key, "") != theirs.get(key, ""):
            return False
    if list(ours.get("args", ())) != list(theirs.get("args", ())):
        return False
    return all(_alike(ours.get(key, {}), theirs.get(key, {})) for key in ("env", "headers"))


def _alike(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    return set(ours) == set(theirs) and all(
        ours[key] == theirs[key] or REFERENCE.search(f"{ours[key]} {theirs[key]}") for key in ours
    )


def _free(server: Server, taken: Collection[str]) -> str:
    plain = re.sub(r"[^\w.-]+", "-", server.name).strip("-")[:48] or "server"
    tries = [plain, f"{plain}-{server.client}", *(f"{plain}-{server.client}-{number}" for number in range(2, 1000))]
    return next(name for name in tries if name not in taken)


def is_trunkline(spec: Mapping[str, Any], urls: Iterable[str]) -> bool:
    """Whether an entry leads to Trunkline: taken over, it would call itself."""
    if PurePath(str(spec.get("command", ""))).stem.lower() == "trunkline":
        return True
    words = [str(spec.get("url", "")), *map(str, spec.get("args", ()))]
    ours = {_origin(url) for url in urls} - {""}
    return any(_origin(word) in ours for word in words if word.startswith(("http://", "https://")))


def same_address(one: str, other: str) -> bool:
    """Whether two URLs lead to the same place."""
    return bool(_origin(one)) and _origin(one) == _origin(other) and urlsplit(one).path == urlsplit(other).path


def _origin(url: str) -> str:
    """Scheme, host and port; every name of this machine is the same one."""
    try:
        place = urlsplit(url)
        port = place.port or (443 if place.scheme == "https" else 80)
    except ValueError:
        return ""
    host = (place.hostname or "").lower()
    return f"{place.scheme}://{'localhost' if host in _LOOPBACK else host}:{port}" if host else ""


_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 - a name to compare, not to listen on
