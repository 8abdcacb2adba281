"""Certificates that are not believed, and clocks that are wrong."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import ssl
import subprocess
from email.utils import format_datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.doctor.scene import Machine, Page, website
from tests.harness import TRUNKLINE

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def certificate(
    folder: Path,
    *,
    names: tuple[str, ...] = ("localhost",),
    begins: datetime.datetime = NOW - DAY,
    ends: datetime.datetime = NOW + DAY,
) -> tuple[ssl.SSLContext, Path]:
    """A certificate signed by itself: what a server shows, and the file of those who trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    others = [x509.DNSName(one) for one in names]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(
            x509.SubjectAlternativeName(
                [*others, *([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))] if "localhost" in names else [])]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted, secret = folder / "cert.pem", folder / "key.pem"
    trusted.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, secret)
    return context, trusted


def findings(machine: Machine, trusted: Path | None = None) -> dict[str, dict[str, str]]:
    """What the doctor finds, in a process of its own: who is trusted is asked once for each."""
    env = {**os.environ, "SSL_CERT_FILE": str(trusted)} if trusted else dict(os.environ)
    env.pop("SSL_CERT_DIR", None)
    done = subprocess.run(
        [TRUNKLINE, "doctor", "--format", "json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=machine.folder,
    )
    return {one["code"]: one for one in json.loads(done.stdout)["findings"]}


MCP = {"/mcp": Page(401, "{}", {"WWW-Authenticate": "Bearer"})}
"""With a certificate that is believed, the server is reached, and wants a token."""


def test_a_certificate_signed_by_itself_is_trusted_when_its_owner_says_so(machine: Machine) -> None:
    context, trusted = certificate(machine.folder)
    with website(MCP, context=context) as origin:
        machine.configure({"url": f"{origin}/mcp"})

        found, then = findings(machine), findings(machine, trusted)

    assert list(found) == ["TL304"]
    assert "signed by itself" in found["TL304"]["seen"]
    assert "SSL_CERT_FILE" in found["TL304"]["advice"]
    assert list(then) == ["TL311"]


def test_a_certificate_that_expired_is_shown_with_its_date(machine: Machine) -> None:
    context, trusted = certificate(machine.folder, begins=NOW - 9 * DAY, ends=NOW - 2 * DAY)
    with website(MCP, context=context) as origin:
        machine.configure({"url": f"{origin}/mcp"})

        found = findings(machine, trusted)

    assert list(found) == ["TL305"]
    assert f"{NOW - 2 * DAY:%Y-%m-%d}" in found["TL305"]["seen"]


def test_a_certificate_for_another_host_is_shown_with_its_names(machine: Machine) -> None:
    context, trusted = certificate(machine.folder, names=("one.example", "two.example"))
    with website(MCP, context=context) as origin:
        machine.configure({"url": f"{origin}/mcp"})

        found = findings(machine, trusted)

    assert list(found) == ["TL306"]
    assert "one.example, two.example" in found["TL306"]["seen"]


def test_a_clock_that_is_off_is_told_from_a_certificate_that_is(machine: Machine) -> None:
    later = NOW + 900 * DAY
    context, trusted = certificate(machine.folder, begins=later - DAY, ends=later + DAY)
    with website(MCP, context=context, date=format_datetime(later, usegmt=True)) as origin:
        machine.configure({"url": f"{origin}/mcp"})

        found = findings(machine, trusted)

    assert list(found) == ["TL316"]
    assert f"{later:%Y-%m-%d}" in found["TL316"]["seen"]


def test_plain_http_at_an_address_of_https_is_corrected(machine: Machine) -> None:
    with website(MCP) as origin:
        machine.configure({"url": f"{origin.replace('http:', 'https:')}/mcp"})
        told = machine.doctor()
        machine.configure({"url": f"{origin}/mcp"})
        then = machine.doctor()

    assert told.codes == ["TL307"]
    assert f'url = "{origin}/mcp"' in told.advice
    assert then.codes == ["TL311"]
