"""Where authorization servers send people back to, and where they read who we are."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qsl

import msgspec

from trunkline.errors import RefusedError
from trunkline.gateway.pages import PAGE, page_of
from trunkline.gateway.request import JSON, Request
from trunkline.tenancy.sign_ins import CALLBACK, DOCUMENT, SignIns

PATH = "/oauth/"
LONGEST = 16 * 1024
"""Bytes of what an authorization server may send somebody back with."""


async def answer(sign_ins: SignIns, request: Request) -> None:
    """Finish a sign-in, or say who we are. What is in the address is shown nowhere."""
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
    problem = await sign_ins.finish(_query(request.url.partition(b"?")[2]))
    if problem:
        body = f"<p>{escape(problem)}</p><p>Go back to where you came from, and begin again.</p>"
        request.answer(400, page_of("Not signed in", body), PAGE)
    else:
        request.answer(200, page_of("Signed in", "<p>You can close this page.</p>"), PAGE)


def _query(text: bytes) -> dict[str, str]:
    """What somebody was sent back with; said twice, it could be read in two ways."""
    try:
        pairs = parse_qsl(text[:LONGEST].decode("ascii"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return {}
    found = dict(pairs)
    return found if len(found) == len(pairs) and len(text) <= LONGEST else {}
