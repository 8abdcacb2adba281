"""Serves the console's page and what it is made of: the same bytes for everyone, and nothing secret in them."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trunkline.errors import RefusedError
from trunkline.gateway.request import Headers, Request

PAGE = "/"
PATH = "/console/assets/"
"""Followed by the digest of all files: what is below never changes, and is kept for good."""

FOLDER = Path(__file__).parent
_KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_OF_PAGE: Headers = [
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]
_OF_FILES: Headers = [(b"cache-control", b"public, max-age=31536000, immutable")]
_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"accept-encoding"),
]


@dataclass(frozen=True)
class File:
    """One file, as it is and compressed."""

    kind: bytes
    etag: bytes
    plain: bytes
    packed: bytes


def answer(request: Request) -> None:
    """Give the page, or a file that it asks for."""
    if request.method not in ("GET", "HEAD"):
        raise RefusedError(f"There is nothing to {request.method} here.", status=405)
    is_page = request.path == PAGE
    found = _file(f"{version()}/index.html" if is_page else request.path.removeprefix(PATH))
    if found is None:
        raise RefusedError("There is nothing here.", status=404, hint="The console is at /.")
    headers: Headers = [*_ALWAYS, *(_OF_PAGE if is_page else _OF_FILES), (b"etag", found.etag)]
    if request.headers.get(b"if-none-match") == found.etag:
        request.answer(304, b"", headers)
        return
    headers.append((b"content-type", found.kind))
    if b"gzip" in request.headers.get(b"accept-encoding", b""):
        request.answer(200, found.packed, [*headers, (b"content-encoding", b"gzip")])
    else:
        request.answer(200, found.plain, headers)


@cache
def version() -> str:
    """Changes when any file does."""
    digest = hashlib.sha256()
    for name, data in sorted(_sources().items()):
        digest.update(b"%s\0%d\0" % (name.encode(), len(data)) + data)
    return digest.hexdigest()[:16]


@cache
def _sources() -> dict[str, bytes]:
    """Every file by its name; what is not here is not served, whatever a path says."""
    files = [file for file in FOLDER.rglob("*") if file.suffix in _KINDS]
    return {file.relative_to(FOLDER).as_posix(): file.read_bytes() for file in files}


@cache
def _packed(name: str) -> File:
    data = _sources()[name]
    if name == "index.html":
        data = data.replace(b"{version}", version().encode())
    etag = b'"%s"' % hashlib.sha256(data).hexdigest()[:32].encode()
    return File(_KINDS[Path(name).suffix], etag, data, gzip.compress(data, 9, mtime=0))


def _file(path: str) -> File | None:
    digest, _, name = path.partition("/")
    return _packed(name) if digest == version() and name in _sources() else None
