"""A small identity provider in this process: metadata, keys, and real tokens."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

Json = dict[str, Any]


class Provider:
    """Signs tokens, and tells its keys; `asked` counts what was fetched."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"k1": ec.generate_private_key(ec.SECP256R1())}
        self.asked: Counter[str] = Counter()
        self.url = self.says = ""
        self.jwks: Any = None
        """What is told instead of its keys."""
        self.away = False

    def listed(self) -> Json:
        """Its public keys."""
        algorithm = jwt.get_algorithm_by_name("ES256")
        made = {kid: json.loads(algorithm.to_jwk(key.public_key())) for kid, key in self.keys.items()}  # type: ignore[reportUnknownMemberType]
        return {"keys": [{**one, "kid": kid, "use": "sig"} for kid, one in made.items()]}

    def token(self, audience: Any, *, kid: str = "k1", headers: Json | None = None, **claims: Any) -> str:
        """A token of ana for an audience, for ten minutes."""
        said = {"iss": self.url, "aud": audience, "sub": "ana", "exp": time.time() + 600, **claims}
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, self.keys[kid], "ES256", {"kid": kid, "typ": "at+jwt", **(headers or {})})

    def signed(self, header: Json, claims: Json) -> str:
        """A token of which every letter is as given."""
        parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in (header, claims)]
        text = b".".join(parts)
        signature: bytes = jwt.get_algorithm_by_name("ES256").sign(text, self.keys["k1"])
        return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()

    async def answer(self, request: web.Request) -> web.Response:
        """Metadata at the OpenID address, keys at /keys."""
        self.asked[request.path] += 1
        if self.away:
            return web.Response(status=503)
        if request.path == "/.well-known/openid-configuration":
            return web.json_response({"issuer": self.says or self.url, "jwks_uri": f"{self.url}/keys"})
        if request.path == "/keys":
            return web.json_response(self.listed() if self.jwks is None else self.jwks)
        return web.Response(status=404)


@asynccontextmanager
async def open_provider() -> AsyncGenerator[Provider]:
    """A provider that listens on a free port."""
    provider = Provider()
    app = web.Application()
    app.router.add_get("/{path:.*}", provider.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address: Any = runner.addresses[0]
    provider.url = f"http://127.0.0.1:{address[1]}"
    try:
        yield provider
    finally:
        await runner.cleanup()
