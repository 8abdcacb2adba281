"""Looks at a server's certificate and clock without trusting either: nothing of ours is sent."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from trunkline.upstream.http1 import Origin


@dataclass(frozen=True)
class Certificate:
    """What a server shows."""

    names: tuple[str, ...]
    begins: datetime
    ends: datetime
    self_signed: bool


@dataclass(frozen=True)
class Shown:
    """The certificate, and what time the server thinks it is, in seconds since the epoch; 0 when it does not say."""

    certificate: Certificate | None = None
    time: float = 0.0


async def look(origin: Origin, seconds: float) -> Shown:
    """What can be seen at an address; nothing when it does not answer."""
    writer: asyncio.StreamWriter | None = None
    certificate: Certificate | None = None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(origin.host, origin.port, ssl=_trusting_nobody())
            certificate = _read(writer.get_extra_info("ssl_object").getpeercert(True))
            request = f"HEAD / HTTP/1.1\r\nHost: {origin.authority}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            head = await reader.read(16 * 1024)
        return Shown(certificate, _date(head))
    except (OSError, TimeoutError):
        return Shown(certificate)
    finally:
        if writer is not None:
            writer.transport.abort()


def _trusting_nobody() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # we only look, and send nothing
    return context


def _read(der: bytes) -> Certificate | None:
    from cryptography import x509

    try:
        found = x509.load_der_x509_certificate(der)
        names = [str(name.value) for name in found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
        try:
            other = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names = [*other.get_values_for_type(x509.DNSName), *map(str, other.get_values_for_type(x509.IPAddress))]
        except x509.ExtensionNotFound:
            pass
        return Certificate(
            tuple(names), found.not_valid_before_utc, found.not_valid_after_utc, found.issuer == found.subject
        )
    except ValueError:
        return None


def _date(head: bytes) -> float:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"date":
            try:
                return parsedate_to_datetime(value.decode("latin-1").strip()).timestamp()
            except ValueError:
                return 0.0
    return 0.0
