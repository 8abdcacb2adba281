"""A gateway that runs somewhere, and what it answers when it is asked how it fares."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast
from urllib.parse import urlsplit

from trunkline.config.options import GatewayConfig
from trunkline.errors import ConfigError, TrunklineError

PATIENCE = 2.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - asked of, not listened on


@dataclass(frozen=True)
class Running:
    """Where it listens, and the token to show there."""

    address: str
    """Such as `http://127.0.0.1:7420`."""
    token: str = field(default="", repr=False)

    def statistics(self) -> dict[str, Any]:
        """How calls went and what was saved; an error says why that is not known."""
        status, body = self._get("/api/v1/stats")
        if status == 401:
            raise TrunklineError(
                f"The gateway at {self.address} wants a token.", hint="Set TRUNKLINE_GATEWAY_TOKEN to it."
            )
        told = _report(status, body)
        if not told:
            raise TrunklineError(f"What listens at {self.address} is no Trunkline, or an older one.")
        return told

    def servers(self) -> list[dict[str, Any]]:
        """Its servers, and how calls of each went; none when it does not answer, or not to us."""
        try:
            told: Any = _report(*self._get("/api/v1/servers")).get("servers")
        except TrunklineError:
            return []
        return [one for one in cast("list[Any]", told) if "name" in one] if isinstance(told, list) else []

    def _get(self, path: str) -> tuple[int, bytes]:
        where = urlsplit(self.address)
        kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
        connection = kind(where.hostname or "", where.port, timeout=PATIENCE)
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as error:
            raise TrunklineError(
                f"No gateway answers at {self.address}.", hint="Start one with `trunkline up`, or name it with --url."
            ) from error
        finally:
            connection.close()


def _report(status: int, body: bytes) -> dict[str, Any]:
    """What a gateway says of its servers; empty when it says something else."""
    try:
        told: Any = json.loads(body) if status == 200 else None
    except ValueError:
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) and "servers" in told else {}


def running_at(url: str, gateway: GatewayConfig) -> Running:
    """The gateway at a URL; without one, where this configuration has it listen."""
    token = gateway.token or next(iter(gateway.users.values()), "")
    if not url:
        host = _EVERYWHERE.get(gateway.host, gateway.host)
        return Running(f"http://{f'[{host}]' if ':' in host else host}:{gateway.port}", token)
    try:
        where = urlsplit(url)
        known = where.scheme in ("http", "https") and bool(where.hostname) and where.port != 0
    except ValueError:
        known = False
    if not known:
        raise ConfigError(f"{url!r} is not the URL of a gateway.", hint="It looks like http://127.0.0.1:7420/mcp.")
    return Running(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}", token)
