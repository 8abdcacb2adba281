"""Every address that a server or an authorization server names: none leads into a private network (CHECKS A09)."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from tests.upstream.test_egress import HERE, was_touched
from trunkline.errors import ConfigError, UnreachableError
from trunkline.tenancy.oauth.web import Web, WebAnswer
from trunkline.upstream.egress import Egress, resolve

PUBLIC = "https://mcp.example.org/mcp"
WAYS: dict[str, Callable[[Web, str], Awaitable[WebAnswer]]] = {
    "a description": lambda web, url: web.get(url, "server's description"),
    "what a token opens": lambda web, url: web.get_with(url, "Bearer secret", "userinfo endpoint"),
    "a code or a refresh token": lambda web, url: web.post(url, {"code": "secret"}, {}, "token endpoint"),
    "a registration": lambda web, url: web.post_json(url, {}, "registration endpoint"),
}


@pytest.fixture
def canary() -> Iterator[socket.socket]:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        listening.setblocking(False)
        yield listening


async def names(host: str, port: int) -> Sequence[str]:
    """What a resolver says: the server is public, `inside.example` is not."""
    known = {"mcp.example.org": ["93.184.216.34"], "inside.example": ["93.184.216.34", "127.0.0.1"]}
    return known[host] if host in known else await resolve(host, port)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("public_only", [True, False])
async def test_nothing_on_this_machine_is_asked_because_a_server_elsewhere_names_it(
    way: str, public_only: bool, canary: socket.socket
) -> None:
    egress, port = Egress(names), canary.getsockname()[1]
    for host in (*HERE, "inside.example", "user@localhost", "mcp.example.org@localhost"):
        for scheme in ("https", "http"):
            web = Web(egress, PUBLIC, public_only=public_only)
            with pytest.raises((ConfigError, UnreachableError)) as told:
                await WAYS[way](web, f"{scheme}://{host}:{port}/token")
            assert "secret" not in str(told.value)

    assert not was_touched(canary)
    egress.close()


@pytest.mark.parametrize(
    "url", ["", "javascript:alert(1)", "file:///etc/passwd", "//x", "https://", "https://a b/", "gopher://x"]
)
async def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="not a safe https address"):
        await Web(Egress(names), PUBLIC, public_only=False).get(url, "server's description")
