"""Addresses that strangers give us: none of them leads into a private network, however it is written."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence

import pytest

from trunkline.errors import UnreachableError
from trunkline.upstream.egress import PublicOnly, is_public
from trunkline.upstream.http1 import HttpClient, request_bytes
from trunkline.upstream.origin import split_url

HERE = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "0", "0.0.0.0",
    "localhost", "LOCALHOST", "localhost.", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "[::127.0.0.1]", "127.0.0.1.", "127.255.255.254",
]  # fmt: skip
"""Ways to write addresses of this machine."""
PRIVATE = [
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "0.0.0.0", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "::1", "::",
    "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "::ffff:10.0.0.1",
    "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::", "::10.0.0.1", "not an address", "",
]  # fmt: skip


@pytest.fixture
def canary() -> Iterator[socket.socket]:
    """Something on this machine that nobody may reach."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        listening.setblocking(False)
        yield listening


def was_touched(canary: socket.socket) -> bool:
    try:
        canary.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("host", HERE)
async def test_no_spelling_of_this_machine_is_connected_to(host: str, canary: socket.socket) -> None:
    origin, target = split_url(f"http://{host}:{canary.getsockname()[1]}/mcp")
    with pytest.raises(UnreachableError):
        await HttpClient(PublicOnly()).send(origin, request_bytes(b"POST", target, {}, b"{}"), limit=100)
    assert not was_touched(canary)


async def test_without_the_guard_the_same_is_connected_to(canary: socket.socket) -> None:
    origin, target = split_url(f"http://127.1:{canary.getsockname()[1]}/mcp")
    client = HttpClient()
    response, _ = await client.send(origin, request_bytes(b"POST", target, {}, b"{}"), limit=100)
    response.close()
    assert was_touched(canary)


@pytest.mark.parametrize("address", PRIVATE)
def test_what_not_everybody_can_reach_is_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "2002:808:808::1"])
def test_what_everybody_can_reach_is_public(address: str) -> None:
    assert is_public(address)


async def test_the_connection_goes_to_the_address_that_was_checked(canary: socket.socket) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["8.8.8.8" if len(asked) == 1 else "127.0.0.1"]

    where = PublicOnly(rebinding)
    client = HttpClient(where)
    origin, target = split_url(f"http://rebound.example:{canary.getsockname()[1]}/mcp")
    for _ in range(2):
        with pytest.raises(UnreachableError):
            await client.send(origin, request_bytes(b"POST", target, {}, b"{}"), limit=100, timeout=0.05)
    assert asked == ["rebound.example"] * 2  # once for each connection: nothing is looked up behind the check
    assert not was_touched(canary)


async def test_one_private_address_among_several_is_reason_enough(canary: socket.socket) -> None:
    async def mixed(host: str, port: int) -> Sequence[str]:
        return ["8.8.8.8", "127.0.0.1"]

    with pytest.raises(UnreachableError, match=r"mixed\.example is not a public address"):
        await PublicOnly(mixed)("mixed.example", 80)


async def test_of_several_addresses_the_first_that_answers_is_taken() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as only_six:
        port = only_six.getsockname()[1]

        async def two(host: str, port: int) -> Sequence[str]:
            return ["127.0.0.1", "::1"]

        client = HttpClient(two)
        origin, target = split_url(f"http://two.example:{port}/mcp")
        response, _ = await client.send(origin, request_bytes(b"POST", target, {}, b"{}"), limit=100)
        response.close()
        only_six.settimeout(5)
        await asyncio.to_thread(lambda: only_six.accept()[0].close())
