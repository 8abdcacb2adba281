"""`[servers.NAME.oauth]`: how Trunkline signs in to a server, where the server's own word is not enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Grant = Literal["code", "client_credentials", "jwt_bearer", "id_jag", "exchange"]


@dataclass(frozen=True)
class OAuthSpec:
    """`[servers.NAME.oauth]`: what is known of the server's authorization server, and as whom to sign in."""

    client_id: str = ""
    """The id that Trunkline has there, if it was registered by hand; else it registers itself."""
    client_secret: str = field(default="", repr=False)
    """The secret of that client. Write `${secret:NAME}` to keep it out of the file."""
    private_key: str = field(default="", repr=False)
    """The client's private key (PEM), where it proves itself by `private_key_jwt`; write `${secret:NAME}`."""
    client_metadata_url: str = ""
    """Address of a document that describes this client; default is the gateway's own, if `public_url` is https."""
    scopes: tuple[str, ...] = ()
    """What to ask for; default is what the server says is needed."""
    issuer: str = ""
    """The one authorization server to sign in at; default is the first that the server names."""
    authorization_url: str = ""
    """Where people sign in, for a server whose authorization server does not describe itself."""
    token_url: str = ""
    """Where tokens are had there."""
    grant: Grant = "code"
    """`code` has a person sign in; `client_credentials`, `jwt_bearer`, `id_jag` and `exchange` want nobody."""
    assertion: str = field(default="", repr=False)
    """The workload's token for `jwt_bearer`, or the identity token for `id_jag`. Write `${env:NAME}`."""
    idp_token_url: str = ""
    """Where the identity provider gives tokens for other services; for `id_jag`."""
    idp_client_id: str = ""
    """The id that Trunkline has at the identity provider; for `id_jag`."""
    audience: str = ""
    """What a token is to be for, if the authorization server has its own name for the server; for `exchange`."""
    shared: bool = False
    """One sign-in, the operator's, serves everybody; else each user signs in."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What of it nobody may read."""
        return self.client_secret, self.private_key, self.assertion

    @property
    def for_machines(self) -> bool:
        """Whether nobody has to sign in."""
        return self.grant != "code"

    @property
    def exchanges(self) -> bool:
        """Whether what callers came with is exchanged for what the server takes: a token for each."""
        return self.grant == "exchange"
