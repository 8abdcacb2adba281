"""How long one hostile caller or server keeps all others waiting: the longest step of the loop, in ms of CPU.

    python bench/stalls.py [--only WORDS]

The gateway is this process; callers and servers are others. A step is what the loop does without a pause; as CPU time
it hardly depends on what else the machine does. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from growth import EVENTS, Servers, Steps
from scale import SMALLEST, sized

from trunkline.config.reading import parse
from trunkline.gateway.serve import Gateway, open_gateway

BAR = 20.0
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
FULL = sized(4_000_000, smallest=40_000)
"""Bytes of a body that is nearly too large."""
SECONDS = sized(10, smallest=1)


@dataclass(frozen=True)
class Scene:
    """Something that a caller or a server does to the gateway."""

    words: str
    servers: str = "/plain"
    """The paths of the servers."""
    caller: str = ""
    """What the caller does, by the name of a function; nobody calls where it is empty."""
    seconds: float = 0.0
    """How long it is watched besides."""


SCENES = [
    Scene("an ordinary call", caller="call"),
    Scene("40 callers that stop reading 1 MB each", servers="/large", caller="stop_reading"),
    Scene("a head that does not end", caller="endless_head"),
    Scene("trailers that do not end", caller="endless_trailer"),
    Scene("4 MB in chunks of one byte", caller="tiny_chunks"),
    Scene("4 MB of one name again and again", caller="repeated_names"),
    Scene("4 MB of names in the arguments", caller="many_names"),
    Scene("4 MB of escapes", caller="escapes"),
    Scene("4 MB of escaped names", caller="escaped_names"),
    Scene("4 MB beside half a surrogate pair", caller="half_pair"),
    Scene("4 MB of half surrogate pairs", caller="half_pairs"),
    Scene("4 MB of half pairs, a name twice", caller="half_pairs_twice"),
    Scene("4 MB of brackets", caller="brackets"),
    Scene("a server's answer of 4 MB with half a pair", servers="/half", caller="call"),
    Scene("a server's answer of 4 MB of escapes", servers="/escapes", caller="call"),
    Scene("a server's answer in chunks of one byte", servers="/chunks", caller="call"),
    Scene("a server's trailers that do not end", servers="/trailer", caller="call"),
    Scene("20,000 requests of a server in a row", servers="/asks", caller="call"),
    Scene("20,000 notifications of a server in a row", servers="/tells", caller="call"),
    Scene("2,000 tools that change every second", servers="/tools2000", seconds=SECONDS),
    Scene("15,000 tools that change every second", servers="/tools15000", seconds=SECONDS),
    Scene("a page of 14 MB", servers="/page", seconds=1),
    Scene("50,000 tools of 100 servers, one changes every second", servers="/many", seconds=SECONDS),
    Scene("50,000 tools of 100 servers, all change every second", servers="/busy", seconds=SECONDS),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORDS", help="scenes whose words contain these")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--scene", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--call", nargs=2, metavar=("WHAT", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(Hostile(0).serve())
    elif options.call:
        CALLERS[options.call[0]](int(options.call[1]))
    elif options.scene >= 0:
        print(json.dumps(asyncio.run(watch(SCENES[options.scene]))))
    else:
        found: dict[str, float] = {}
        print(f"{'the longest step, ms of CPU':<60}{'start':>10}{'then':>10}")
        tried = ("stop_reading", "half_pair") if SMALLEST else (*CALLERS, "")
        for number, scene in enumerate(SCENES):
            if options.only in scene.words and scene.caller in tried:
                # What one scene left in memory would be counted for the next.
                command = [sys.executable, __file__, "--scene", str(number)]
                ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                start, then = json.loads(ran.stdout.splitlines()[-1])
                found[scene.words] = max(start, then)
                print(f"{scene.words:<60}{start:>10.1f}{then:>10.1f}{'' if max(start, then) <= BAR else '  above 20'}")
        print(json.dumps(found))


async def watch(scene: Scene) -> tuple[float, float]:
    """The longest step until its servers are ready, and the longest after that."""
    steps = Steps()
    with served() as port, tempfile.TemporaryDirectory() as home:
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 100, 100)  # as `trunkline up` does
        async with opened(scene, port, Path(home)) as gateway:
            await gateway.hub.ready(120)
            await asyncio.sleep(0.2)
            start = steps.longest()
            if scene.caller:
                words = [sys.executable, __file__, "--call", scene.caller, gateway.url.rpartition(":")[2].split("/")[0]]
                await asyncio.to_thread(subprocess.run, words, check=True)
            await asyncio.sleep(scene.seconds)
            then = steps.longest()
            assert not scene.caller or {one.state.value for one in gateway.hub.servers()} == {"ready"}, scene.words
    return round(start, 2), round(then, 2)


@contextlib.asynccontextmanager
async def opened(scene: Scene, port: int, home: Path) -> AsyncGenerator[Gateway]:
    """A gateway over the servers of a scene."""
    count = sized(100, smallest=2) if scene.servers in ("/many", "/busy") else 1
    url = f"http://127.0.0.1:{port}{scene.servers}"
    servers = {f"s{n}": {"url": f"{url}/{n}", "health_interval": 0} for n in range(count)}
    said = {"gateway": {"port": 0}, "servers": servers, "search": {"strategy": "bm25"}}
    async with open_gateway(dataclasses.replace(parse(said, env=os.environ), home=home)) as gateway:
        yield gateway


@contextlib.contextmanager
def served() -> Generator[int]:
    """The servers, in a process of their own."""
    process = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Hostile(Servers):
    """Servers that do what nobody expects, each at its path."""

    def _answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        kind = path.split("/")[1]
        request = json.loads(body)
        if "method" not in request:  # the gateway answers what it was asked
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return
        self.tools = {"tools2000": 2_000, "tools15000": 15_000, "many": 500, "busy": 500}.get(kind, 1)
        if SMALLEST:
            self.tools = min(self.tools, 20)
        if request["method"] == "tools/call":
            self._result_of(kind, json.dumps(request["id"]).encode(), writer)
            return
        super()._answer(path, body, writer)
        one = path.endswith("/0") or kind == "busy"
        if request["method"] == "subscriptions/listen" and kind in ("tools2000", "tools15000", "many", "busy") and one:
            self._change_again(path)

    def _change_again(self, path: str) -> None:
        with contextlib.suppress(ConnectionError):
            self._change(path)
            asyncio.get_running_loop().call_later(1, self._change_again, path)

    def _tool(self, path: str, number: int) -> dict[str, Any]:
        made = super()._tool(path, number)
        if path.startswith("/page"):
            made["description"] = "x" * sized(14_000_000, smallest=1_000)
        return made

    def _result_of(self, kind: str, id: bytes, writer: asyncio.StreamWriter) -> None:
        text = {
            "half": b"x" * FULL + rb"\ud83d",
            "escapes": rb"\u0041" * (FULL // 6),
            "large": b"x" * sized(1_000_000, smallest=1_000),
        }.get(kind, b"hello")
        content = b'{"resultType":"complete","content":[{"type":"text","text":"' + text + b'"}]}'
        answer = b'{"jsonrpc":"2.0","id":' + id + b',"result":' + content + b"}"
        if kind in ("asks", "tells"):
            writer.write(EVENTS)
            writer.write(_chunk(b"".join(map(_said, range(sized(20_000, smallest=20)))) if kind == "asks" else _told()))
            writer.write(_chunk(b"data: " + answer + b"\n\n") + b"0\r\n\r\n")
            return
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        if kind in ("chunks", "trailer"):
            writer.write(head + b"transfer-encoding: chunked\r\n\r\n")
            blank = sized(200_000, smallest=2_000) if kind == "chunks" else 0
            writer.write(b"1\r\n \r\n" * blank + _chunk(answer) + b"0\r\n")
            writer.write(b"x: y\r\n" * sized(200_000, smallest=20) if kind == "trailer" else b"\r\n")
            return
        writer.write(head + b"content-length: %d\r\n\r\n" % len(answer) + answer)


def _said(number: int) -> bytes:
    asked = {"jsonrpc": "2.0", "id": number, "method": "roots/list", "params": {}}
    return b"data: " + json.dumps(asked).encode() + b"\n\n"


def _told() -> bytes:
    said = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    return (b"data: " + json.dumps(said).encode() + b"\n\n") * sized(20_000, smallest=20)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# Callers, each in a process of its own.


def _head(length: int, *, more: bytes = b"") -> bytes:
    framing = b"transfer-encoding: chunked" if length < 0 else b"content-length: %d" % length
    return (
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
        b"mcp-method: tools/call\r\nmcp-name: list_invoice_0\r\n" + framing + more + b"\r\n\r\n"
    )


def _body(arguments: bytes = b'{"id":"1"}', *, more: bytes = b"") -> bytes:
    stamp = json.dumps(META).encode()
    params = b'{"name":"list_invoice_0","arguments":' + arguments + b',"_meta":' + stamp + b"}"
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call",' + more + b'"params":' + params + b"}"


def _send(port: int, *parts: bytes, seconds: float = 30.0) -> bytes:
    """What is answered; the gateway may hang up before it has read all."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except OSError:
            pass
        try:
            answer = connection.recv(65536)
        except OSError:
            answer = b""
    print(answer[:120], file=sys.stderr) if os.environ.get("TRACE") else None
    return answer


def _post(port: int, body: bytes) -> None:
    _send(port, _head(len(body)), body)


def call(port: int) -> None:
    _post(port, _body())


def stop_reading(port: int) -> None:
    body = _body()
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(sized(40, smallest=2))]
    for one in held:
        one.sendall((_head(len(body)) + body) * 4)
    time.sleep(sized(5, smallest=1))


def endless_head(port: int) -> None:
    _send(port, b"POST /mcp HTTP/1.1\r\nx: ", *[b"x" * 1000] * sized(8_000, smallest=80))
    _send(port, b"POST /mcp HTTP/1.1\r\n", *[b"x: y\r\n"] * sized(20_000, smallest=80))


def endless_trailer(port: int) -> None:
    _send(port, _head(-1), _chunk(_body()) + b"0\r\n", *[b"x: y\r\n" * 100] * sized(10_000, smallest=80))
    _send(port, _head(-1), _chunk(_body()) + b"0\r\nx: ", *[b"x" * 1000] * sized(8_000, smallest=80))


def tiny_chunks(port: int) -> None:
    body = _body(b'{"id":"' + b"x" * (FULL - 1000) + b'"}')
    _send(port, _head(-1), b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")


def repeated_names(port: int) -> None:
    _post(port, _body(more=b'"a":1,' * (FULL // 6)))
    _post(port, _body(b'{"a":1' + b',"a":1' * (FULL // 6 - 200) + b"}"))


def many_names(port: int) -> None:
    _post(port, _body(b"{" + b",".join(b'"%07d":1' % n for n in range(FULL // 12)) + b"}"))
    _post(port, _body(more=b"".join(b'"%07d":1,' % n for n in range(FULL // 13))))


def escapes(port: int) -> None:
    _post(port, _body(b'{"id":"' + rb"\u0041" * (FULL // 6 - 200) + b'"}'))


def escaped_names(port: int) -> None:
    _post(port, _body(more=b"".join(rb'"\u0061%07d":1,' % n for n in range(FULL // 19))))


def half_pair(port: int) -> None:
    _post(port, _body(b'{"id":"' + b"x" * (FULL - 1000) + rb"\ud83d" + b'"}'))


def half_pairs(port: int) -> None:
    _post(port, _body(b'{"id":"' + rb"\ud83d" * (FULL // 6 - 200) + b'"}'))


def half_pairs_twice(port: int) -> None:
    _post(port, _body(b'{"id":"' + rb"\ud83d" * (FULL // 6 - 200) + b'"}', more=b'"id":1,"id":2,'))


def brackets(port: int) -> None:
    _post(port, _body(b'{"id":' + b"[" * (FULL // 2 - 1000) + b"]" * (FULL // 2 - 1000) + b"}"))


CALLERS: dict[str, Callable[[int], None]] = {
    one.__name__: one
    for one in (
        call, stop_reading, endless_head, endless_trailer, tiny_chunks, repeated_names, many_names, escapes,
        escaped_names, half_pair, half_pairs, half_pairs_twice, brackets,
    )
}  # fmt: skip


if __name__ == "__main__":
    main()
