"""The pages of a sign-in: where it begins for people with keys, where they come back to, and who we say we are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from urllib.parse import parse_qsl, urlsplit

import msgspec

from trunkline.errors import RefusedError
from trunkline.gateway.cookie import Cookies, cookies_of, set_cookie
from trunkline.gateway.pages import PAGE, page_of
from trunkline.gateway.request import JSON, Headers, Request
from trunkline.identity import Scope, unit_name
from trunkline.tenancy.sign_ins import CALLBACK, DOCUMENT, GATE, Gate, SignIns

PATH = "/oauth/"
LONGEST = 16 * 1024
"""Bytes of what an authorization server may send somebody back with."""

ScopeOf = Callable[[str], Awaitable[Scope | None]]
"""Whom a key lets in."""


async def answer(sign_ins: SignIns, scope_of: ScopeOf, cookies: Cookies, request: Request) -> None:
    """Begin or finish a sign-in, or say who we are. What is in the address is shown nowhere."""
    if request.path.startswith(GATE):
        await _gate(sign_ins, scope_of, cookies, request)
        return
    if request.path not in (CALLBACK, DOCUMENT):
        raise RefusedError("There is nothing here.", status=404, hint="MCP is at /mcp.")
    if request.method != "GET":
        raise RefusedError(f"There is nothing to {request.method} here.", status=405)
    if request.path == DOCUMENT:
        document = sign_ins.document()
        if document is None:
            raise RefusedError("There is nothing here.", status=404, hint="`public_url` has to be an https address.")
        request.answer(200, msgspec.json.encode(document), [JSON, (b"cache-control", b"max-age=3600")])
        return
    problem = await sign_ins.finish(query_of(request), cookies_of(request))
    if problem:
        body = f"<p>{escape(problem)}</p><p>Go back to where you came from, and begin again.</p>"
        request.answer(400, page_of("Not signed in", body), PAGE)
    else:
        request.answer(200, page_of("Signed in", "<p>You can close this page.</p>"), PAGE)


async def _gate(sign_ins: SignIns, scope_of: ScopeOf, cookies: Cookies, request: Request) -> None:
    """Let the person pass whom a sign-in is for: who began it must be who finishes it."""
    found = await sign_ins.gate(request.path.removeprefix(GATE))
    if found is None:
        request.answer(404, page_of("Gone", "<p>This sign-in is over, or its time is up.</p>"), PAGE)
        return
    scheme, _, key = request.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if request.method == "POST":
        scheme, key = "bearer", dict(_pairs(request.body)).get("key", "")
    elif request.method != "GET":
        raise RefusedError(f"There is nothing to {request.method} here.", status=405)
    # Browsers send the cookie where a page of ours led here, and never where another's did.
    known = await cookies.admit(request) if request.method == "GET" else None
    signed_in = known is not None and found.lets_in(known.scope)
    if scheme.lower() != "bearer" and not signed_in:
        request.answer(200, _form(found), PAGE)
    elif not signed_in and not found.lets_in(await scope_of(key.strip())):
        request.answer(403, _form(found, "This is for somebody else, or the key is wrong."), PAGE)
    else:
        name, value = found.cookie
        cookie = set_cookie(name, value, 600, secure=name.startswith("__Host-"), same_site="Lax")
        passed: Headers = [*PAGE, cookie]
        if request.method == "GET":
            request.answer(302, b"", [*passed, (b"location", found.url.encode())])
            return
        where = escape(urlsplit(found.url).netloc)
        link = f'<a href="{escape(found.url)}" rel="noreferrer">Go on to {where}</a>'
        request.answer(200, page_of("Sign in", f"<p>{_about(found)}</p><p>{link}</p>"), passed)


def _form(found: Gate, problem: str = "") -> bytes:
    said = f'<p role="alert">{escape(problem)}</p>' if problem else ""
    field = '<label>Your Trunkline key <input type="password" name="key" required></label>'
    form = f'<form method="post" autocomplete="off">{field}<button>Go on</button></form>'
    return page_of("Sign in", f"<p>{_about(found)}</p>{said}{form}")


def _about(found: Gate) -> str:
    who, what = (found.owner, "what they call") if found.owner else ("An admin", "what everybody calls")
    return f"{escape(who)} signs in to {escape(unit_name(found.server))}, for {what} here."


def query_of(request: Request) -> dict[str, str]:
    """What somebody was sent back with; said twice, it could be read in two ways."""
    pairs = _pairs(request.url.partition(b"?")[2])
    found = dict(pairs)
    return found if len(found) == len(pairs) else {}


def _pairs(text: bytes) -> list[tuple[str, str]]:
    if len(text) > LONGEST:
        return []
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return []
