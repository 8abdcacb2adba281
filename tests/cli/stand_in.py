"""Small servers in the place of those that the network would bring, as programs or at an address."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.cli.stand_in_server import answer
from tests.harness import compiled

PROGRAM = Path(__file__).with_name("stand_in_server.py")


def stand_in(name: str, **options: Any) -> dict[str, Any]:
    """The configuration of one of them; it starts faster than a server that has to load the SDK."""
    return {"command": sys.executable, "args": ["-S", compiled(PROGRAM), name], **options}


@contextmanager
def at_an_address(tools: dict[str, str], token: str) -> Generator[str]:
    """The same over HTTP, for whoever has the token; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers["authorization"] != f"Bearer {token}":
                self._reply(401, b"")
                return
            said = answer(tools, json.loads(body))
            self._reply(200 if said else 202, json.dumps(said).encode() if said else b"")

        def do_GET(self) -> None:
            self._reply(405, b"")

        def do_DELETE(self) -> None:
            self._reply(405, b"")

        def _reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            with suppress(BrokenPipeError, ConnectionResetError):  # a command that ends hangs up
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()
