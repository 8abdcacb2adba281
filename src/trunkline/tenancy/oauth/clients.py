"""The clients that we are to authorization servers: kept while they are taken there, and shown to no other."""

from __future__ import annotations

import time

import msgspec

from trunkline.config.server import ServerSpec
from trunkline.errors import AuthorizationNeededError
from trunkline.identity import unit_name
from trunkline.storage import sign_ins as rows
from trunkline.storage.credentials import CredentialName
from trunkline.storage.store import Store
from trunkline.tenancy.credentials import Vault
from trunkline.tenancy.oauth.metadata import Issuer, same_issuer
from trunkline.tenancy.oauth.registration import Client

CLIENT = "client"
SHOWN = "client shown to"
UNKNOWN = frozenset(("invalid_client", "unauthorized_client"))
"""What an authorization server says of a client that it does not know any more."""
YOUNG = 86400.0
"""Seconds in which a client is not registered again because nobody came back: people also change their minds."""


class Shown(msgspec.Struct, frozen=True):
    """Where what is secret of a configured client may be sent."""

    server_url: str
    client_id: str
    issuer: str


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


async def show_to(vault: Vault, known: dict[str, Shown], spec: ServerSpec, issuer: Issuer) -> None:
    """Let what is secret of a configured client go to the first authorization server that its server names.

    A server could name another one day, and have it. So only the configuration says that it moved. What is known in
    this process spares the store, which may be away.
    """
    config = spec.oauth
    if config.issuer or config.token_url or not any(config.secrets):
        return
    name, now = CredentialName("", spec.name, "", SHOWN), Shown(spec.url, config.client_id, issuer.issuer)
    before = known.get(spec.name)
    if before is None:
        content = await vault.get(name)
        before = msgspec.json.decode(content, type=Shown) if content is not None else None
    if before is None or (before.server_url, before.client_id) != (now.server_url, now.client_id):
        await vault.put(name, msgspec.json.encode(now))
        before = now
    known[spec.name] = before
    if not same_issuer(before.issuer, issuer.issuer):
        raise AuthorizationNeededError(
            f"Server {unit_name(spec.name)!r} names another authorization server ({issuer.issuer}) than the one that "
            f"its configured client was shown to ({before.issuer}); it is sent nothing.",
            hint="If it moved there, say so: `issuer` in [servers.NAME.oauth].",
        )


def _name(server: str, issuer: str) -> CredentialName:
    return CredentialName("", server, issuer, CLIENT)
