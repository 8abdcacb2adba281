"""The clients that we are to authorization servers: kept for as long as they are taken there."""

from __future__ import annotations

import time

import msgspec

from trunkline.storage import sign_ins as rows
from trunkline.storage.credentials import CredentialName
from trunkline.storage.store import Store
from trunkline.tenancy.credentials import Vault
from trunkline.tenancy.oauth.metadata import Issuer
from trunkline.tenancy.oauth.registration import Client

CLIENT = "client"
UNKNOWN = frozenset(("invalid_client", "unauthorized_client"))
"""What an authorization server says of a client that it does not know any more."""
YOUNG = 86400.0
"""Seconds in which a client is not registered again because nobody came back: people also change their minds."""


async def kept_client(vault: Vault, server: str, issuer: Issuer) -> Client | None:
    """The client that was registered at an authorization server for a server."""
    content = await vault.get(_name(server, issuer.issuer))
    return msgspec.json.decode(content, type=Client) if content is not None else None


async def usable_client(vault: Vault, store: Store, server: str, owner: str, issuer: Issuer) -> Client | None:
    """The same, unless it was forgotten there, as far as can be seen: whoever is sent there never comes back."""
    found = await kept_client(vault, server, issuer)
    if found is None or time.time() < found.made + YOUNG:
        return found
    return None if await rows.is_unanswered(store, owner, server, issuer.issuer) else found


async def keep_client(vault: Vault, server: str, issuer: Issuer, client: Client) -> None:
    """Keep a client that was just registered."""
    await vault.put(_name(server, issuer.issuer), msgspec.json.encode(client))


async def forget_client(vault: Vault, server: str, issuer: str, client: Client) -> None:
    """Have another registered the next time, in the place of this one."""
    if client.registered and client == await kept_client(vault, server, Issuer(issuer)):
        await vault.remove(user="", server=server, issuer=issuer, field=CLIENT)


def _name(server: str, issuer: str) -> CredentialName:
    return CredentialName("", server, issuer, CLIENT)
