"""What is at a remote address where MCP was expected, and whether MCP is at another one nearby."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit, urlunsplit

from trunkline.config.server import ServerSpec, shown_url
from trunkline.doctor.finding import Finding, Url
from trunkline.doctor.start import wrong_revision
from trunkline.doctor.words import finding_of, shorten, without_secrets
from trunkline.errors import AuthorizationNeededError, TrunklineError
from trunkline.identity import unit_name
from trunkline.upstream.address import Address
from trunkline.upstream.connection import initialize_params
from trunkline.upstream.exchange import Exchange
from trunkline.upstream.http1 import HttpClient
from trunkline.upstream.pool import Pool
from trunkline.wire.envelope import write_request

PATHS = ("/mcp", "/mcp/", "/sse", "/api/mcp", "/v1/mcp")
"""Where MCP commonly is."""


@dataclass(frozen=True)
class Answered:
    """How an address answers `initialize`."""

    status: int
    content_type: str = ""
    location: str = ""
    challenge: str = ""
    body: str = ""

    @property
    def is_page(self) -> bool:
        """Whether it is a page for people."""
        return self.content_type == "text/html" or self.body.lstrip()[:15].lower().startswith(("<!doctype", "<html"))


@dataclass(frozen=True)
class Nearby:
    """Another way to reach the server, which was tried and works."""

    url: str
    kind: str


async def explain_answer(
    spec: ServerSpec, error: TrunklineError, pool: Pool, file: Path | None, seconds: float
) -> Finding:
    """Why an address that answers is not a server for us."""
    if re.search(r"does not speak|; we do not\b", error.message):
        return wrong_revision(spec, error.message)
    try:
        async with asyncio.timeout(seconds):
            answered = await ask(spec)
    except (TrunklineError, TimeoutError):
        return finding_of("TL315", error.message, "Try again; if it stays so, ask whoever runs the server.", spec)
    if isinstance(error, AuthorizationNeededError) or answered.status in (401, 403):
        return _unauthorized(spec, answered)
    if 300 <= answered.status < 400:
        return _redirected(spec, answered)
    if answered.status == 429 or answered.status >= 500:
        advice = "Wait, and try again. If it stays so, whoever runs it must look at its log."
        return finding_of("TL314", f"it answered HTTP {answered.status}.", advice, spec)
    if "HTTPS port" in answered.body or "HTTPS server" in answered.body:
        advice = f'Write url = "https://{shown_url(spec.url).partition("://")[2]}".'
        return finding_of("TL307", "the port wants TLS, and was spoken to without.", advice, spec)
    return _elsewhere(spec, answered, await find_nearby(spec, pool, seconds), file)


async def ask(spec: ServerSpec) -> Answered:
    """Send `initialize` to the address, and see what comes, whatever it is."""
    client = HttpClient()
    address = Address(spec, client)
    exchange = Exchange(spec.name, "initialize", b"", timeout=spec.start_timeout, background=True)
    body = write_request(b"1", "initialize", initialize_params(b"{}"))
    try:
        response, _ = await address.send(address.post_bytes(exchange, body), timeout=spec.start_timeout)
        try:
            await response.ready()
            return Answered(
                response.status,
                response.content_type.decode("latin-1"),
                response.headers.get(b"location", b"").decode("latin-1"),
                response.headers.get(b"www-authenticate", b"").decode("latin-1"),
                "" if response.streams else response.body()[:2000].decode(errors="replace"),
            )
        finally:
            response.close()
    finally:
        client.close()


async def find_nearby(spec: ServerSpec, pool: Pool, seconds: float) -> Nearby | None:
    """The first other path or transport at which the whole handshake works; headers stay within the origin."""
    trials = [dataclasses.replace(spec, transport="auto", url=url) for url in near(spec.url)]
    if spec.transport != "auto":
        other = "sse" if spec.transport == "http" else "http"
        trials.insert(0, dataclasses.replace(spec, transport=other))
    worked = await asyncio.gather(*(_works(trial, number, pool, seconds) for number, trial in enumerate(trials)))
    return next((Nearby(trial.url, trial.kind) for trial, works in zip(trials, worked, strict=True) if works), None)


async def _works(spec: ServerSpec, number: int, pool: Pool, seconds: float) -> bool:
    # A name of its own keeps its failures apart from the server's.
    trial = dataclasses.replace(spec, name=f"{spec.name} nearby {number}")
    try:
        async with asyncio.timeout(seconds):
            await pool.open(trial)
        return True
    except (TrunklineError, TimeoutError):
        return False
    finally:
        await pool.remove(trial.name)


def near(url: str) -> list[str]:
    """Addresses that were likely meant, the likeliest first."""
    parts = urlsplit(url)
    path = parts.path
    bare = path.rstrip("/")
    parent = bare.rpartition("/")[0]
    paths = [
        bare if path.endswith("/") and bare else f"{bare}/",
        f"{bare}/mcp",
        *([f"{parent}/mcp", f"{parent}/mcp/", f"{parent}/sse"] if bare else []),
        *PATHS,
    ]
    found = dict.fromkeys(urlunsplit(parts._replace(path=one)) for one in paths if one not in (path, ""))
    return list(found)[:10]


def _elsewhere(spec: ServerSpec, answered: Answered, nearby: Nearby | None, file: Path | None) -> Finding:
    if nearby is not None and nearby.url == spec.url:
        advice = f'Leave `transport` out, or write transport = "{nearby.kind}".'
        seen = f'it does not speak transport = "{spec.transport}", but {_TRANSPORTS[nearby.kind]}.'
        return finding_of("TL309", seen, advice, spec)
    code, seen = "TL315", f"it answered HTTP {answered.status} and no MCP: {shorten(_words(answered.body))}"
    advice = "Look up the address: it commonly ends in /mcp or /sse."
    if answered.is_page:
        code, seen = "TL310", f"there is a web page (HTTP {answered.status})."
        advice = "This is an address for people. Look up the one for MCP: it commonly ends in /mcp or /sse."
    elif answered.status in (404, 405, 410, 400) or nearby is not None:
        code, seen = "TL308", f"there is no MCP at this path (HTTP {answered.status})."
    if nearby is None:
        return finding_of(code, seen, advice, spec)
    return Finding(
        code,
        without_secrets(seen, spec),
        f'MCP is at {shown_url(nearby.url)}, where it was tried: write url = "{shown_url(nearby.url)}".',
        server=spec.name,
        command="trunkline doctor --fix",
        remedy=Url(file, spec.name, nearby.url) if file is not None else None,
    )


_TRANSPORTS = {"http": "streamable HTTP", "sse": "HTTP+SSE"}


def _unauthorized(spec: ServerSpec, answered: Answered) -> Finding:
    given = [name for name in spec.headers if re.search(r"authorization|key|token|cookie", name, re.IGNORECASE)]
    by_oauth = "resource_metadata" in answered.challenge
    oauth = " It speaks of OAuth, and may want a token from there." if by_oauth else ""
    status = f"HTTP {answered.status or 401}"
    if given:
        seen = f"it refuses what is in the header {', '.join(given)} ({status}).{oauth}"
        advice = (
            "The token may be expired, mistyped, or lack a right. Take a new one, and mind the word `Bearer` before it."
        )
        return finding_of("TL312", seen, advice, spec)
    name = re.sub(r"\W+", "_", spec.name).strip("_").upper() or "SERVER"
    sign_in = f"Sign in: trunkline login {unit_name(spec.name)}. Or get" if by_oauth else "Get"
    advice = (
        f"{sign_in} a token from whoever runs it, and write under [servers.{spec.name}]: "
        f'headers = {{ Authorization = "Bearer ${{env:{name}_TOKEN}}" }}.'
    )
    return finding_of("TL311", f"it wants to know who you are ({status}).{oauth}", advice, spec)


def _redirected(spec: ServerSpec, answered: Answered) -> Finding:
    target = shown_url(urljoin(spec.url, answered.location))
    seen = f"it redirects to {target} (HTTP {answered.status})."
    advice = f'If that is the right place, write url = "{target}"; your headers are not sent there unasked.'
    if re.search(r"login|signin|auth|sso", target):
        advice = "It wants a person to log in: look up its address for MCP, and how to get a token."
    return finding_of("TL313", seen, advice, spec)


def _words(body: str) -> str:
    return " ".join(body.split())
