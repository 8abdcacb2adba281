"""The pages by which people sign in to the console at an identity provider: where they leave, and where they return."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from trunkline.config.exposure import is_loopback
from trunkline.config.tenancy import IssuerSpec
from trunkline.errors import RefusedError, StoreError, TrunklineError, UpstreamError
from trunkline.gateway.audit import RequestAudit
from trunkline.gateway.callback import query_of
from trunkline.gateway.cookie import Cookies, cookies_of, set_cookie
from trunkline.gateway.pages import PAGE, page_of
from trunkline.gateway.request import Headers, Request
from trunkline.tenancy.issuers import Issuers
from trunkline.tenancy.tenancy import Tenancy

if TYPE_CHECKING:
    from trunkline.tenancy.oauth.console_sign_in import ConsoleSignIns

BEGIN = "/console/sign-in/"
BACK = "/console/signed-in"
HERE = b"here"
"""Said in the address by whom we sent to the address that is ours, once."""
LIFE = 600.0
"""Seconds that the browser keeps what it comes back with."""
_LATER = "Try again in a while; if it stays so, tell whoever runs this gateway: its log may say more."


class ConsoleSignIn:
    """Sends browsers away, and lets those in who come back as somebody."""

    def __init__(
        self, specs: Mapping[str, IssuerSpec], base: str, issuers: Issuers, tenancy: Tenancy, cookies: Cookies
    ) -> None:
        self._base, self._issuers, self._tenancy, self._cookies = base, issuers, tenancy, cookies
        self._specs = {name: spec for name, spec in specs.items() if spec.client_id and _is_safe(base)}
        self._made: ConsoleSignIns | None = None

    @property
    def offered(self) -> tuple[str, ...]:
        """The issuers by whom people can sign in."""
        return tuple(self._specs)

    async def __call__(self, request: Request, audit: RequestAudit) -> None:
        """Answer with a page, or send the browser on. Nothing that a provider or an address says is shown."""
        if request.method != "GET":
            raise RefusedError(f"There is nothing to {request.method} here.", status=405)
        try:
            if request.path == BACK:
                await self._finish(request, audit)
            else:
                await self._begin(request)
        except TrunklineError as error:
            audit.refused(request, error)
            self._refuse(request, error)

    async def _begin(self, request: Request) -> None:
        name = request.path.removeprefix(BEGIN)
        if name not in self._specs:
            hint = "Sign in with a key, or ask whoever runs this gateway: see `client_id` and `public_url`."
            raise RefusedError("Nobody signs in to this console that way.", status=404, hint=hint)
        own = urlsplit(self._base).netloc.lower()
        if (
            request.headers.get(b"host", b"").decode("latin-1").lower() != own
            and request.url.partition(b"?")[2] != HERE
        ):
            # The provider sends people back to our one address, where the cookie has to be then.
            request.answer(
                302, b"", [*PAGE, (b"location", f"{self._base}{BEGIN}{quote(name)}?{HERE.decode()}".encode())]
            )
            return
        url, cookie, value = await self._sign_ins.begin(name)
        kept = set_cookie(cookie, value, LIFE, secure=cookie.startswith("__Host-"), same_site="Lax")
        request.answer(302, b"", [*PAGE, kept, (b"location", url.encode())])

    async def _finish(self, request: Request, audit: RequestAudit) -> None:
        query = query_of(request)
        issued = await self._sign_ins.finish(query, cookies_of(request))
        admission = await self._tenancy.people.take_in(issued)
        value, seconds = await self._cookies.sessions.begin(admission, issued)
        request.scope, request.admission = admission.scope, admission
        audit.changed(request, "session")
        used = self._sign_ins.cookie(query["state"])
        headers: Headers = [
            *PAGE,
            set_cookie(used, "", 0, secure=used.startswith("__Host-"), same_site="Lax"),
            self._cookies.made(request, value, seconds),
            (b"location", f"{self._base}/".encode()),
        ]
        request.answer(302, b"", headers)

    def _refuse(self, request: Request, error: TrunklineError) -> None:
        ours = isinstance(error, RefusedError)
        status = error.status if ours else 503 if isinstance(error, (StoreError, UpstreamError)) else 502
        hint = (error.hint or "Ask whoever runs this gateway.") if ours else _LATER
        said = f"<p>{escape(error.message)}</p><p>{escape(hint)}</p>"
        back = f'<p><a href="{escape(self._base)}/">Back to the console</a></p>'
        request.answer(status, page_of("Not signed in", said + back), PAGE)

    @property
    def _sign_ins(self) -> ConsoleSignIns:
        if self._made is None:
            from trunkline.tenancy.oauth.console_sign_in import ConsoleSignIns

            self._made = ConsoleSignIns(self._specs, self._issuers, self._tenancy, f"{self._base}{BACK}")
        return self._made


def _is_safe(base: str) -> bool:
    """Whether what is sent back to us can be read by nobody on the way."""
    parts = urlsplit(base)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")
