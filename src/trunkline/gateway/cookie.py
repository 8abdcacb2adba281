"""The cookie of a browser that is signed in to the console: how it is made, read, and guarded against other pages."""

from __future__ import annotations

from urllib.parse import urlsplit

from trunkline.errors import RefusedError
from trunkline.gateway.request import Request
from trunkline.tenancy.console_sessions import ConsoleSessions
from trunkline.tenancy.people import Admission

NAME = "__Host-trunkline"
CONSOLE = b"trunkline-console"
"""The header without which nothing is changed by cookie: another site's page cannot send it unasked."""
SAFE = ("GET", "HEAD")


class Cookies:
    """Lets in whoever signed in here before."""

    def __init__(self, base: str, sessions: ConsoleSessions) -> None:
        self.sessions = sessions
        self._https = urlsplit(base).netloc.lower() if base.startswith("https://") else ""

    async def admit(self, request: Request) -> Admission | None:
        """Whose browser it is; `None` when it is not signed in. RefusedError where another page may have sent this."""
        value = self.value(request)
        found = await self.sessions.admit(value) if value else None
        if found is not None and request.method not in SAFE:
            check_own_page(request, secure=self.is_secure(request))
        return found

    def value(self, request: Request) -> bytes:
        """What a request's cookie says; empty without one. A header of one's own counts more than a cookie."""
        if b"cookie" not in request.headers or b"authorization" in request.headers:
            return b""
        return cookies_of(request).get(self._name(request), "").encode("latin-1")

    def made(self, request: Request, value: str, seconds: float = 0.0) -> tuple[bytes, bytes]:
        """The header that gives a browser its cookie; without a value, that takes it away."""
        return set_cookie(self._name(request), value, seconds, secure=self.is_secure(request), same_site="Strict")

    def is_secure(self, request: Request) -> bool:
        """Whether the browser speaks https: with a proxy before us, whose address `public_url` is."""
        return bool(self._https) and _host(request).lower() == self._https

    def _name(self, request: Request) -> str:
        """Over plain HTTP the prefix means nothing, and not every browser takes it there.

        The port keeps two gateways of one machine apart, whose cookies browsers do not tell apart by it.
        """
        if self.is_secure(request):
            return NAME
        port = _host(request).rpartition(":")[2]
        return f"trunkline-{port}" if port.isdigit() else "trunkline"


def check_own_page(request: Request, *, secure: bool) -> None:
    """Refuse what a page of another origin may have sent with this browser's cookie."""
    headers = request.headers
    scheme, _, host = headers.get(b"origin", b"").partition(b"://")
    own = host == headers.get(b"host") and (scheme == b"https" or not secure)
    if not own or headers.get(b"sec-fetch-site", b"same-origin") != b"same-origin" or headers.get(CONSOLE) != b"1":
        hint = "A program sends its key as `Authorization: Bearer` instead."
        raise RefusedError("Only a page of this gateway does this with a cookie.", status=403, hint=hint)


def set_cookie(name: str, value: str, seconds: float, *, secure: bool, same_site: str) -> tuple[bytes, bytes]:
    """The header that has a browser keep something that no script can read; gone with an empty value."""
    age = int(seconds) if value else 0
    rest = f"Path=/; Max-Age={age}; HttpOnly; SameSite={same_site}{'; Secure' if secure else ''}"
    return b"set-cookie", f"{name}={value}; {rest}".encode()


def cookies_of(request: Request) -> dict[str, str]:
    """What a browser was given to keep, by name; what others on this host gave it may look like anything."""
    sent = request.headers.get(b"cookie", b"").decode("latin-1")
    pairs = (one.strip().partition("=") for one in sent.split(";"))
    return {name: value for name, found, value in pairs if found}


def _host(request: Request) -> str:
    return request.headers.get(b"host", b"").decode("latin-1")
