"""Reads manifests from disk and from the web, trusting neither: nothing outside its folder, nothing huge or late."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import replace
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from trunkline.errors import ManifestError
from trunkline.install.manifests.manifest import Manifest
from trunkline.install.manifests.reader import read_manifest

NAMES = ("server.json", "plugin.json")
"""What a manifest is called in its folder; the first that is there counts."""
LARGEST = 2**20
"""Bytes that a manifest may have."""
DEEPEST = 64
TIMEOUT = 10.0
"""Seconds without a byte."""
LONGEST = 30.0
"""Seconds in all."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def open_manifest(path: Path) -> Manifest:
    """The manifest in a folder, or in a file; the files that it names must lie beside it or below."""
    folder = path if path.is_dir() else path.parent
    named = [path] if folder is not path else [path / name for name in NAMES if (path / name).exists()]
    if not named or not named[0].exists():
        what = f"There is no file {path}." if named else f"There is no manifest in {path}."
        raise ManifestError(what, hint=f"It is called {' or '.join(NAMES)}.")
    file = inside(folder, named[0].name)
    manifest = read_manifest(read_json(_read(file), where=str(named[0])), where=str(named[0]))
    return replace(manifest, folder=folder.resolve())


def fetch_manifest(url: str) -> Manifest:
    """The manifest at an address; blocks, at most half a minute. It has no folder, so it can name no files."""
    _check_address(url)
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


def read_json(content: bytes, *, where: str) -> Any:
    """JSON of somebody whom we do not trust; ManifestError when it is none, too large or nested too deeply."""
    if len(content) > LARGEST:
        raise ManifestError(f"{where} has more than {LARGEST // 2**20} MiB.")
    try:
        value = json.loads(content.decode("utf-8-sig"), parse_constant=_no_constant)
        shallow = _depth(value) <= DEEPEST
    except RecursionError:
        shallow, value = False, None
    except ValueError as error:
        raise ManifestError(f"{where} is not JSON: {error}.") from error
    if not shallow:
        raise ManifestError(f"{where} is nested too deeply.")
    return value


def inside(folder: Path, name: str) -> Path:
    """The file of that name in the folder, links followed; ManifestError when it is missing or elsewhere."""
    if Path(name).is_absolute() or "\0" in name:
        raise ManifestError(f"{name!r} is not a file in {folder}.", hint="Name it as seen from the folder.")
    home = folder.resolve()
    try:
        found = (home / name).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ManifestError(f"There is no file {name!r} in {folder}.") from error
    if not found.is_relative_to(home):
        raise ManifestError(f"{name!r} leads out of {folder}.")
    if not found.is_file():
        raise ManifestError(f"{name!r} in {folder} is not a file.")
    return found


def _read(file: Path) -> bytes:
    try:
        # Without waiting: what was a file a moment ago may be a pipe now.
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ManifestError(f"{file} is not a file.")
            return opened.read(LARGEST + 1)
    except OSError as error:
        raise ManifestError(f"{file} cannot be read: {error.strerror or error}.") from error


def _depth(value: Any) -> int:
    deepest, open_values = 0, [(value, 1)]
    while open_values:
        one, depth = open_values.pop()
        deepest = max(deepest, depth)
        if isinstance(one, dict | list):
            inner = one.values() if isinstance(one, dict) else one  # type: ignore[reportUnknownVariableType]
            open_values.extend((item, depth + 1) for item in inner)  # type: ignore[reportUnknownVariableType]
    return deepest


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


class _Redirects(HTTPRedirectHandler):
    """Follows to addresses that could have been named in the first place."""

    max_redirections = 3

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        try:
            _check_address(newurl)
        except ManifestError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    raise ManifestError(f"{_shown(url)} cannot be trusted on its way.", hint="Name an https address, or a file.")


def _shown(url: str) -> str:
    """The address for people: without what may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
