"""Who could reach a gateway: whether an address leaves this machine, and what it then takes to listen there."""

from __future__ import annotations

import ipaddress

from trunkline.config.options import GatewayConfig
from trunkline.config.placeholder import is_guessed
from trunkline.errors import ConfigError

LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))


def is_loopback(host: str) -> bool:
    """Whether an address only reaches this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(gateway: GatewayConfig, *, people: bool = False) -> None:
    """Refuse to listen beyond this machine without a token or users, or with one that is easily guessed."""
    tokens = [token for token in (gateway.token, *gateway.users.values()) if token]
    for token in tokens:
        if len(token) < 16:
            raise ConfigError("The gateway's token is too short to be safe.", hint="Use 16 characters or more.")
        if is_guessed(token):
            raise ConfigError("The gateway's token looks like a placeholder.", hint="Take a random one.")
    if len(set(tokens)) < len(tokens) or len(tokens) < len(gateway.users):
        raise ConfigError("Two users share a token, or one has none.", hint="Give each its own.")
    if not tokens and not people and not is_loopback(gateway.host):
        raise ConfigError(
            f"Trunkline does not listen on {gateway.host} without a token: anyone could use your tools.",
            hint="Set TRUNKLINE_GATEWAY_TOKEN, or `trunkline user add` somebody, or listen on 127.0.0.1.",
        )
