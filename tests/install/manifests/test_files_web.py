"""Manifests from the web: small, soon, and not from just anywhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.install.manifests.samples import npm
from trunkline.errors import ManifestError
from trunkline.install.manifests.files import fetch_manifest


class Web(BaseHTTPRequestHandler):
    """A few pages."""

    def do_GET(self) -> None:
        pages = {"/server.json": json.dumps(npm()).encode(), "/huge": b'"' + b"x" * 2**21 + b'"', "/no": b"<html>"}
        leads = {
            "/moved": "/server.json",
            "/out": "http://192.0.2.1/x",
            "/file": "file:///etc/passwd",
            "/loop": "/loop",
        }
        self.send_response(302 if self.path in leads else 200 if self.path in pages else 404)
        if self.path in leads:
            self.send_header("Location", leads[self.path])
        self.end_headers()
        try:
            self.wfile.write(pages.get(self.path, b""))
        except OSError:
            pass  # who has read enough hangs up

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", ["/server.json", "/moved"])
def test_a_manifest_is_fetched(path: str, web: str) -> None:
    manifest = fetch_manifest(web + path)

    assert (manifest.name, manifest.folder) == (npm()["name"], None)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/huge", "has more than 1 MiB"),
        ("/no", "is not JSON"),
        ("/missing", "Not Found"),
        ("/out", "cannot be trusted on its way"),
        ("/file", "cannot be"),
        ("/loop", "cannot be fetched"),
    ],
)
def test_what_is_no_manifest_or_leads_elsewhere_is_refused(path: str, reason: str, web: str) -> None:
    with pytest.raises(ManifestError) as caught:
        fetch_manifest(f"{web}{path}")

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://h.example/server.json", "file:///etc/passwd", "ftp://h/x", "http://localhost.evil.example/"]
)
def test_only_encrypted_addresses_and_this_machine_are_asked(url: str) -> None:
    with pytest.raises(ManifestError, match="cannot be trusted on its way"):
        fetch_manifest(url)


def test_what_may_be_secret_in_an_address_is_not_repeated() -> None:
    with pytest.raises(ManifestError) as caught:
        fetch_manifest("http://user:s3cret@h.example/server.json?token=s3cret")

    assert "s3cret" not in str(caught.value)
