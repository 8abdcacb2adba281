"""Why no connection to a remote server comes about: names, ports, certificates, clocks."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from trunkline.config.server import ServerSpec, shown_url
from trunkline.doctor.finding import Finding
from trunkline.doctor.words import finding_of
from trunkline.upstream.origin import Origin, split_url

LOOK_SECONDS = 5.0
CLOCK_OFF = 24 * 3600.0
"""Seconds by which our clock and a server's may differ before the clock is to blame for a certificate."""

_EXPIRED, _NOT_YET = 10, 9
_OTHER_HOST = (62, 64)


async def explain_connection(spec: ServerSpec, error: BaseException, now: float) -> Finding | None:
    """Why the connection failed; `None` when there was one, and the trouble came later."""
    origin, _ = split_url(spec.url)
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            return await _explain_tls(spec, origin, cause, now)
        if isinstance(cause, socket.gaierror):
            advice = "Look for a typing error in the `url`; else look at your network, VPN and DNS."
            return finding_of("TL301", f"nobody knows the host {origin.host!r}.", advice, spec)
        if isinstance(cause, OSError) and _refused(cause):
            return _refusal(spec, origin)
        if isinstance(cause, TimeoutError) or (isinstance(cause, OSError) and cause.errno in _UNREACHED):
            advice = "Look whether the address is right, and whether a firewall, a VPN or a proxy is in the way."
            return finding_of("TL303", f"{origin.authority} does not answer.", advice, spec)
    if re.search(r"does(?: not|n't) answer|did not answer", str(error)):
        advice = "It takes the connection and says nothing: it may be overloaded, or not speak HTTP."
        return finding_of("TL303", f"{origin.authority} did not answer in time.", advice, spec)
    return None


_UNREACHED = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _refused(error: OSError) -> bool:
    # Where a name has several addresses, the loop joins what went wrong at each into one text.
    return isinstance(error, ConnectionRefusedError) or bool(
        re.search(r"Errno 111|Errno 61|Connection refused|Connect call failed", str(error))
    )


def _refusal(spec: ServerSpec, origin: Origin) -> Finding:
    advice = "Look whether the address and the port are right, and whether the server runs."
    if origin.host in ("localhost", "127.0.0.1", "::1"):
        advice = f"Start the server; it should listen on port {origin.port} of this machine."
    return finding_of("TL302", f"nothing listens at {origin.authority}.", advice, spec)


async def _explain_tls(spec: ServerSpec, origin: Origin, error: ssl.SSLError, now: float) -> Finding:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return _no_tls(spec, origin, error)
    shown = await look(origin, LOOK_SECONDS)
    code = error.verify_code
    if code in (_EXPIRED, _NOT_YET):
        return _wrong_time(spec, origin, shown, now)
    if code in _OTHER_HOST:
        names = ", ".join(shown.certificate.names[:5]) if shown.certificate else ""
        seen = f"the certificate is not for {origin.host!r}" + (f", but for {names}." if names else ".")
        return finding_of("TL306", seen, "Write a name that it is for into the `url`, or have it made anew.", spec)
    who = "signed by itself" if shown.certificate and shown.certificate.self_signed else "signed by nobody we know"
    advice = (
        "If you trust it, put the certificate of its authority (for one signed by itself: its own) into a file with "
        "those of your system, and set SSL_CERT_FILE to it where Trunkline is started. It may be a company's proxy."
    )
    return Finding(
        "TL304",
        f"the certificate of {origin.authority} is {who}.",
        advice,
        server=spec.name,
        command=f"openssl s_client -connect {origin.host}:{origin.port} </dev/null | openssl x509 > server.pem",
    )


def _wrong_time(spec: ServerSpec, origin: Origin, shown: SeenCertificate, now: float) -> Finding:
    here = datetime.fromtimestamp(now, UTC)
    if shown.time and abs(shown.time - now) > CLOCK_OFF:
        there = datetime.fromtimestamp(shown.time, UTC)
        seen = f"it is {here:%Y-%m-%d %H:%M} UTC here, and {there:%Y-%m-%d %H:%M} UTC at {origin.host}."
        advice = "Set the clock of this machine: certificates hold for a time, and no other is believed."
        return Finding("TL316", seen, advice, server=spec.name, command="sudo timedatectl set-ntp true")
    certificate = shown.certificate
    if certificate is None:
        seen = f"the certificate of {origin.authority} is not valid today."
    elif certificate.begins > here:
        seen = f"the certificate of {origin.authority} is valid from {certificate.begins:%Y-%m-%d %H:%M} UTC on."
    else:
        seen = f"the certificate of {origin.authority} ended on {certificate.ends:%Y-%m-%d %H:%M} UTC."
    advice = (
        f"Whoever runs the server must renew it. Look at your own clock as well: it says {here:%Y-%m-%d %H:%M} UTC."
    )
    return finding_of("TL305", seen, advice, spec)


def _no_tls(spec: ServerSpec, origin: Origin, error: ssl.SSLError) -> Finding:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    advice = "Look whether the port is right, and whether a proxy is in the way."
    if re.search(r"wrong version|record layer|unknown protocol|http request|packet length", reason):
        advice = f'It likely speaks plain HTTP: write url = "http://{shown_url(spec.url).partition("://")[2]}".'
    return finding_of("TL307", f"{origin.authority} does not speak TLS with us: {reason}.", advice, spec)


@dataclass(frozen=True)
class Certificate:
    """What a server shows."""

    names: tuple[str, ...]
    begins: datetime
    ends: datetime
    self_signed: bool


@dataclass(frozen=True)
class SeenCertificate:
    """The certificate, and what time the server thinks it is, in seconds since the epoch; 0 when it does not say."""

    certificate: Certificate | None = None
    time: float = 0.0


async def look(origin: Origin, seconds: float) -> SeenCertificate:
    """What can be seen at an address; nothing when it does not answer."""
    writer: asyncio.StreamWriter | None = None
    certificate: Certificate | None = None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(origin.host, origin.port, ssl=_trusting_nobody())
            certificate = _read_certificate(writer.get_extra_info("ssl_object").getpeercert(True))
            request = f"HEAD / HTTP/1.1\r\nHost: {origin.authority}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            head = await reader.read(16 * 1024)
        return SeenCertificate(certificate, _date(head))
    except (OSError, TimeoutError):
        return SeenCertificate(certificate)
    finally:
        if writer is not None:
            writer.transport.abort()


def _trusting_nobody() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # we only look, and send nothing
    return context


def _read_certificate(der: bytes) -> Certificate | None:
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
