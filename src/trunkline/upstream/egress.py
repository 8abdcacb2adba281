"""Where strangers may send us: what a member or a server names as an address must not lead into private networks."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from trunkline.errors import UnreachableError
from trunkline.upstream.http1 import HttpClient
from trunkline.upstream.origin import split_url

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address

_CARRIERS = [ipaddress.IPv6Network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")]
"""IPv6 addresses whose last four bytes are an IPv4 address, to which a router takes them."""
_CLOSED = [ipaddress.ip_network(net) for net in ("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "fec0::/10")]
"""What not every Python counts as private."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system finds them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class PrivateAddressError(UnreachableError):
    """The name leads into a private network, where it must not; nothing was connected to."""


class PublicOnly:
    """Finds the addresses of names, and refuses those that are not public; connections go to what was checked."""

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._resolve = resolve

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Where to connect; one private address among several is reason enough to connect to none."""
        found = await self._resolve(host, port)
        if not found or not all(is_public(address) for address in found):
            raise PrivateAddressError(
                f"{host} is not a public address.", hint="Servers on private networks are the operator's to configure."
            )
        return found


class Egress:
    """Clients for addresses that a server names: what is private is named to us only by what is private itself."""

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._resolve = resolve
        self._anywhere, self._public = HttpClient(), HttpClient(PublicOnly(resolve))

    async def client_for(self, server: str, *, public_only: bool) -> HttpClient:
        """The client with which to fetch what a server at this address names."""
        if public_only:
            return self._public
        origin, _ = split_url(server)
        try:
            found = await self._resolve(origin.host, origin.port)
        except OSError:
            found = list[str]()  # nothing is known of it that would make an exception
        return self._public if all(map(is_public, found)) else self._anywhere

    def close(self) -> None:
        """Close every idle connection."""
        self._anywhere.close()
        self._public.close()


def is_public(text: str) -> bool:
    """Whether an address is one that everybody could reach, whatever it is wrapped in."""
    try:
        return all(_is_open(one) for one in _meant(ipaddress.ip_address(text.partition("%")[0])))
    except ValueError:
        return False


def _meant(address: _Ip) -> list[_Ip]:
    """An address, and those it stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    inner: list[_Ip] = [one for one in (address.ipv4_mapped, address.sixtofour) if one is not None]
    inner += address.teredo or ()
    if any(address in net for net in _CARRIERS):
        inner.append(ipaddress.IPv4Address(address.packed[-4:]))
    return inner if address.ipv4_mapped is not None else [address, *inner]


def _is_open(address: _Ip) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    return not any(address.version == net.version and address in net for net in _CLOSED)
