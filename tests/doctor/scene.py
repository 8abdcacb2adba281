"""A machine with one thing broken on it, and the doctor who is called."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from tests.harness import STDIO_SERVER, faulty
from trunkline.cli.main import main

GOOD = faulty()


@dataclass
class Told:
    """What the doctor said."""

    code: int
    findings: list[dict[str, Any]]
    servers: dict[str, str]
    fixed: list[str]
    text: str
    """Everything that was printed."""

    @property
    def codes(self) -> list[str]:
        """The codes of what is wrong."""
        return [one["code"] for one in self.findings if one["severity"] != "note"]

    def finding(self, code: str) -> dict[str, Any]:
        """The one finding of a code."""
        (found,) = (one for one in self.findings if one["code"] == code)
        return found

    @property
    def advice(self) -> str:
        return self.findings[0]["advice"]


@dataclass
class Machine:
    """A home, a folder to work in, and a folder of programs."""

    folder: Path
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    file: Path = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.folder / "trunkline.toml"
        self.bin.mkdir()
        for name, value in {
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "c"),
            "TRUNKLINE_HOME": str(self.home),
            "PATH": f"{self.bin}:/usr/bin:/bin",
        }.items():
            self.patch.setenv(name, value)
        self.patch.chdir(self.folder)

    @property
    def bin(self) -> Path:
        """The first folder of the PATH."""
        return self.folder / "bin"

    @property
    def home(self) -> Path:
        """Trunkline's own folder."""
        return self.folder / "state"

    def configure(self, server: dict[str, Any] | None = None, /, **sections: Any) -> None:
        """Write the configuration: one server, `it`, or whatever the sections say."""
        document: dict[str, Any] = {"gateway": {"port": 0}, **sections}
        if server is not None:
            document["servers"] = {"it": server}
        self.file.write_text(tomlkit.dumps(document))

    def program(self, name: str, script: str, *, mode: int = 0o755) -> Path:
        """A program in the PATH, as a shell script."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(mode)
        return path

    def server(self, name: str, *, mode: int = 0o755) -> Path:
        """A program in the PATH that is a server."""
        return self.program(name, good_script(), mode=mode)

    def doctor(self, *words: str, timeout: float = 20.0) -> Told:
        """Call the doctor."""
        code = main(["doctor", "--format", "json", "--timeout", str(timeout), *words])
        out, err = self.capture.readouterr()
        report: dict[str, Any] = json.loads(out or '{"findings": [], "servers": {}, "fixed": []}')
        return Told(code, report["findings"], report["servers"], report["fixed"], out + err)

    def is_well(self) -> bool:
        """Whether nothing is wrong any more; what is, is printed."""
        told = self.doctor()
        assert told.codes == [], told.findings
        return told.code == 0


def good_script(*flags: str) -> str:
    """The line of a shell script that becomes a server."""
    return f'exec "{sys.executable}" -S "{STDIO_SERVER}" {" ".join(flags)}'


@dataclass(frozen=True)
class Page:
    """What a web server answers at a path."""

    status: int = 200
    body: str = "<!doctype html><title>Hello</title>"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/html"})


@contextmanager
def website(pages: dict[str, Page], *, context: Any = None, date: str = "") -> Generator[str]:
    """A web server that answers every method alike; its origin. What it does not know is a 404."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            page = pages.get(self.path, Page(404, "not here", {"Content-Type": "text/plain"}))
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            body = page.body.encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_POST = do_HEAD = do_GET

        def date_time_string(self, timestamp: float | None = None) -> str:
            return date or super().date_time_string(timestamp)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that does not like our certificate hangs up

    server = Quiet(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
