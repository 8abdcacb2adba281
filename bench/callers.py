"""What it costs to know who calls: a key of the store, and a token of an identity provider, in CPU microseconds."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import tempfile
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from scale import sized

from trunkline.config.reading import parse
from trunkline.gateway.request import Request
from trunkline.gateway.serve import Gateway, open_gateway
from trunkline.wire.headers import read_said

CALLS, ROUNDS = sized(3000, smallest=10), sized(9, smallest=1)
VERSION = "2026-07-28"
META = {f"io.modelcontextprotocol/{name}": value for name, value in (
    ("protocolVersion", VERSION), ("clientInfo", {"name": "bench", "version": "1"}), ("clientCapabilities", {}),
)}  # fmt: skip
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}).encode()
ISSUER = "https://id.example.org/realms/corp"


class Nowhere:
    closed = False
    peer = ""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written = data

    async def writable(self) -> None: ...


async def spent(opened: Gateway, token: str) -> float:
    headers = {
        b"host": b"localhost",
        b"authorization": f"Bearer {token}".encode(),
        b"content-type": b"application/json",
        b"mcp-protocol-version": VERSION.encode(),
        b"mcp-method": b"tools/list",
    }
    writer, said = Nowhere(), read_said(headers)
    started = time.process_time()
    for _ in range(CALLS):
        await opened.app(Request(writer, "POST", "/mcp", dict(headers), BODY, said=said))
    taken = (time.process_time() - started) / CALLS * 1e6
    assert writer.written.startswith(b"HTTP/1.1 200"), writer.written
    return taken


async def main() -> None:
    home = Path(tempfile.mkdtemp())
    key = rsa.generate_private_key(65537, 2048)
    (home / "corp.pem").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    issuer = {"issuer": ISSUER, "key_file": str(home / "corp.pem"), "roles": {"team-7": "member"}}
    document = {"gateway": {"port": 0}, "auth": {"issuers": {"corp": issuer}}}
    async with open_gateway(dataclasses.replace(parse(document, env=os.environ), home=home)) as opened:
        people = opened.hub.relay.tenancy.people
        await people.add_user("ana")
        _, text = await people.make_key("ana")
        claims = {
            "iss": ISSUER, "aud": opened.url, "sub": "3f6c1d0e-9a51-4c57-8a4e-1f0a9b7e2d11", "exp": time.time() + 3600,
            "scope": "openid profile", "groups": [f"team-{number}" for number in range(20)], "azp": "client",
        }  # fmt: skip
        token = jwt.encode(claims, key, "RS256", {"kid": "k", "typ": "at+jwt"})
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, sent in (("a key", text), ("a token", token)):
                best[name] = min(best.get(name, float("inf")), await spent(opened, sent))
        checks: list[float] = []
        for number in range(max(CALLS // 10, 1)):
            fresh = jwt.encode({**claims, "jti": f"{number}"}, key, "RS256", {"kid": "k"}).encode()
            started = time.process_time()
            await opened.app._issuers.admit(fresh, "/mcp")
            checks.append((time.process_time() - started) * 1e6)
    print(f"  tools/list with a key    {best['a key']:7.2f} µs")
    more = best["a token"] - best["a key"]
    print(f"  tools/list with a token  {best['a token']:7.2f} µs   {more:+.2f} ({len(token)} bytes)")
    print(f"  a token's first check    {sorted(checks)[len(checks) // 2]:7.2f} µs")


if __name__ == "__main__":
    asyncio.run(main())
