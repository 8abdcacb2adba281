"""Fetches manifests from the web: encrypted or from this machine, small, and soon."""

from __future__ import annotations

import time
from http.client import HTTPMessage
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from trunkline.errors import ManifestError
from trunkline.install.manifests.files import LARGEST, read_json
from trunkline.install.manifests.manifest import Manifest
from trunkline.install.manifests.reader import read_manifest

TIMEOUT = 10.0
"""Seconds without a byte."""
LONGEST = 30.0
"""Seconds in all."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def fetch_manifest(url: str) -> Manifest:
    """The manifest at an address; blocks, at most half a minute. It has no folder, so it can name no files."""
    _check(url)
    content = bytearray()
    until = time.monotonic() + LONGEST
    request = Request(url, headers={"accept": "application/json", "user-agent": "trunkline"})  # noqa: S310 - checked above
    try:
        with build_opener(_Redirects()).open(request, timeout=TIMEOUT) as answer:
            while chunk := answer.read1(2**16):
                content += chunk
                if len(content) > LARGEST:
                    break
                if time.monotonic() > until:
                    raise TimeoutError("it takes too long")
    except (URLError, OSError, ValueError) as error:
        if isinstance(error, HTTPError):
            error.close()
        reason = getattr(error, "reason", "") or error
        raise ManifestError(f"{_shown(url)} cannot be fetched: {reason}.") from error
    return read_manifest(read_json(bytes(content), where=_shown(url)), where=_shown(url))


class _Redirects(HTTPRedirectHandler):
    """Follows to addresses that could have been named in the first place."""

    max_redirections = 3

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        try:
            _check(newurl)
        except ManifestError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    raise ManifestError(f"{_shown(url)} cannot be trusted on its way.", hint="Name an https address, or a file.")


def _shown(url: str) -> str:
    """The address for people: without what may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
