"""What two readers could understand differently is refused, and no server ever sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.gateway.test_limits import Answer, wire
from tests.harness import META, VERSION, faulty, gateway

CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"text": "x"}, "_meta": META},
}
PLAIN = json.dumps(CALL)
HEADERS = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "echo"}


def lines(**changes: str | None) -> list[str]:
    changed = {**HEADERS, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return [f"{name}: {value}" for name, value in changed.items() if value is not None]


async def send(url: str, headers: list[str], body: str | bytes) -> Answer:
    raw = body.encode() if isinstance(body, str) else body
    first = ["POST /mcp HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", f"content-length: {len(raw)}"]
    async with wire(url) as line:
        await line.send("\r\n".join([*first, *headers, "", ""]).encode() + raw)
        return await line.answer()


async def refused(tmp_path: Path, *cases: tuple[list[str], str | bytes]) -> list[Answer]:
    """The answers to requests of which none may reach a server."""
    log = tmp_path / "log"
    async with gateway(tmp_path, {"one": faulty("--log", str(log))}) as opened:
        answers = [await send(opened.url, *case) for case in cases]
        told = log.read_text()
        control = await send(opened.url, lines(), PLAIN)

    assert control.status == 200
    assert "call" not in told
    assert log.read_text().count("call echo") == 1
    return answers


def code(answer: Answer) -> tuple[int, int, Any]:
    return answer.status, answer.message["error"]["code"], answer.message["id"]


# Headers against body.


DIFFERENT = [
    lines(mcp_method="tools/list"),
    lines(mcp_method="TOOLS/CALL"),
    lines(mcp_method=""),
    lines(mcp_method=None),
    lines(mcp_method="tools/call, tools/call"),
    lines(mcp_method='"tools/call"'),
    lines(mcp_name="other"),
    lines(mcp_name="ECHO"),
    lines(mcp_name=""),
    lines(mcp_name=None),
    lines(mcp_name="echo, echo"),
    lines(mcp_name="ec ho"),
    lines(mcp_name="=?base64?b3RoZXI=?="),
    lines(mcp_name="=?base64?ZWNobw?="),
    lines(mcp_name="=?base64?ZWNobw==?= "[:-2]),
    lines(mcp_protocol_version="2026-07-29"),
    lines(mcp_protocol_version="2025-11-25"),
    lines(mcp_protocol_version=None),
]


async def test_a_header_that_does_not_repeat_the_body_is_refused(tmp_path: Path) -> None:
    answers = await refused(tmp_path, *((headers, PLAIN) for headers in DIFFERENT))

    for headers, answer in zip(DIFFERENT, answers, strict=True):
        assert code(answer) == (400, -32020, 7), headers


SAME = [
    lines(),
    lines(mcp_name="=?base64?ZWNobw==?="),
    lines(mcp_method="=?base64?dG9vbHMvY2FsbA==?="),
    lines(mcp_name="  echo\t "),
    lines(mcp_method="\ttools/call  "),
    [line.partition(":")[0].upper() + ":" + line.partition(":")[2] for line in lines()],
]


async def test_a_header_that_means_the_same_is_accepted(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        for headers in SAME:
            answer = await send(opened.url, headers, PLAIN)

            assert answer.status == 200, headers


REPEATED = [
    "mcp-name: echo",
    "mcp-name: crash",
    "Mcp-Name: crash",
    "mcp-method: tools/call",
    "MCP-METHOD: tools/list",
    f"mcp-protocol-version: {VERSION}",
    "mcp-protocol-version: 2025-11-25",
    "mcp-param-x: 1\r\nmcp-param-x: 2",
    "mcp-session-id: a\r\nmcp-session-id: b",
    "content-type: application/json",
    "host: localhost",
]


async def test_a_header_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    before = [([repeated, *lines()], PLAIN) for repeated in REPEATED]
    after = [([*lines(), repeated], PLAIN) for repeated in REPEATED]

    answers = await refused(tmp_path, *before, *after)

    for repeated, answer in zip(REPEATED * 2, answers, strict=True):
        assert (answer.status, answer.message["error"]["code"]) == (400, -32020), repeated


async def test_a_version_that_both_name_but_nobody_speaks_is_refused_with_those_that_we_do(tmp_path: Path) -> None:
    body = PLAIN.replace(VERSION, "2027-01-01")

    [answer] = await refused(tmp_path, (lines(mcp_protocol_version="2027-01-01"), body))

    assert code(answer) == (400, -32022, 7)
    assert answer.message["error"]["data"] == {"supported": [VERSION], "requested": "2027-01-01"}


# The body itself.


def replaced(old: str, new: str) -> str:
    assert old in PLAIN
    return PLAIN.replace(old, new, 1)


TWICE = [
    replaced('"id": 7', '"id": 7, "id": 8'),
    replaced('"method": "tools/call"', '"method": "tools/list", "method": "tools/call"'),
    replaced('"method": "tools/call"', '"method": "tools/call", "\\u006dethod": "tools/list"'),
    replaced('"jsonrpc": "2.0"', '"jsonrpc": "2.0", "jsonrpc": "2.0"'),
    replaced('"params": {', '"params": {}, "params": {'),
    replaced('"name": "echo"', '"name": "echo", "name": "crash"'),
    replaced('"name": "echo"', '"name": "crash", "name": "echo"'),
    replaced('"name": "echo"', '"name": "echo", "n\\u0061me": "crash"'),
    replaced('"arguments": {', '"arguments": {}, "arguments": {'),
    replaced('"_meta": {', '"_meta": {}, "_meta": {'),
    replaced(
        '"io.modelcontextprotocol/protocolVersion"',
        '"io.modelcontextprotocol/protocolVersion": "2025-11-25", "io.modelcontextprotocol/protocolVersion"',
    ),
    replaced(
        '"io.modelcontextprotocol/clientCapabilities": {}',
        '"io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol\\/clientCapabilities": {"x":1}',
    ),
]


async def test_a_key_that_occurs_twice_is_refused_in_any_style(tmp_path: Path) -> None:
    # Each style has its own way through the reader.
    styles = TWICE + [body.replace(": ", ":").replace(", ", ",") for body in TWICE]
    styles += [body.replace(": ", " :\t").replace(", ", "\n,") for body in TWICE]

    answers = await refused(tmp_path, *((lines(), body) for body in styles))

    for body, answer in zip(styles, answers, strict=True):
        assert (answer.status, answer.message["error"]["code"]) == (400, -32600), body


OTHER_CASE = [
    replaced('"method":', '"Method":'),
    replaced('"method":', '"METHOD": "tools/list", "method":'),
    replaced('"id":', '"Id":'),
    replaced('"id": 7', '"id": 7, "ID": 8'),
    replaced('"params":', '"Params":'),
    replaced('"params":', '"PARAMS": {}, "params":'),
    replaced('"jsonrpc":', '"JsonRpc":'),
]


async def test_a_key_in_another_case_is_refused(tmp_path: Path) -> None:
    answers = await refused(tmp_path, *((lines(), body) for body in OTHER_CASE))

    for body, answer in zip(OTHER_CASE, answers, strict=True):
        assert (answer.status, answer.message["error"]["code"]) == (400, -32600), body


BROKEN: list[tuple[str | bytes, int]] = [
    (f"[{PLAIN}]", -32600),
    (f"[{PLAIN},{PLAIN}]", -32600),
    ("[]", -32600),
    (replaced('"2.0"', '"1.0"'), -32600),
    (replaced('"2.0"', "2.0"), -32600),
    (replaced('"id": 7', '"id": 7.0'), -32600),
    (replaced('"id": 7', '"id": null'), -32600),
    (replaced('"id": 7', '"id": [7]'), -32600),
    (replaced('"method": "tools/call"', '"method": ["tools/call"]'), -32600),
    (replaced('"text": "x"', '"text": NaN'), -32700),
    (replaced('"text": "x"', '"text": Infinity'), -32700),
    (replaced('"text": "x"', '"text": -Infinity'), -32700),
    (replaced('"text": "x"', "\"text\": 'x'"), -32700),
    (replaced('"text": "x"', '"text": 0x10'), -32700),
    (replaced('"text": "x"', '"text": "x",'), -32700),
    (PLAIN + "x", -32700),
    (PLAIN + PLAIN, -32700),
    (PLAIN[:-1], -32700),
    ("/* */" + PLAIN, -32700),
    ("\ufeff" + PLAIN, -32700),
    ("", -32700),
    ("null", -32700),
    (PLAIN.encode("utf-16"), -32700),
    (replaced('"text": "x"', '"text": "@"').encode().replace(b"@", b"\xff\xfe"), -32700),
    (replaced('"text": "x"', '"text": ' + "[" * 20_000 + "]" * 20_000), -32700),
]


async def test_what_is_not_one_plain_message_is_refused(tmp_path: Path) -> None:
    answers = await refused(tmp_path, *((lines(), body) for body, _ in BROKEN))

    for (body, expected), answer in zip(BROKEN, answers, strict=True):
        assert code(answer) == (400, expected, None), body[:200]


WITHOUT_META = [
    replaced('"_meta": ' + json.dumps(META), '"_meta": {}'),
    replaced('"_meta": ' + json.dumps(META), '"_meta": null'),
    replaced('"_meta": ' + json.dumps(META), '"_Meta": ' + json.dumps(META)),
    replaced('"io.modelcontextprotocol/clientCapabilities": {}', '"x": 1'),
    replaced('"io.modelcontextprotocol/clientCapabilities": {}', '"io.modelcontextprotocol/clientCapabilities": 1'),
    replaced('"io.modelcontextprotocol/clientCapabilities"', '"io.modelcontextprotocol/ClientCapabilities"'),
    replaced('"io.modelcontextprotocol/protocolVersion"', '"io.modelcontextprotocol/PROTOCOLVERSION"'),
]


async def test_metadata_that_is_missing_is_not_guessed(tmp_path: Path) -> None:
    answers = await refused(tmp_path, *((lines(), body) for body in WITHOUT_META))

    for body, answer in zip(WITHOUT_META, answers, strict=True):
        assert code(answer) == (400, -32602, 7), body


async def test_a_tool_named_in_another_case_is_not_called(tmp_path: Path) -> None:
    answers = await refused(
        tmp_path, *((lines(), replaced('"name": "echo"', f'"{name}": "echo"')) for name in ("Name", "NAME"))
    )

    assert [answer.status for answer in answers] == [400, 400]


async def test_a_legacy_call_with_a_modern_header_is_judged_as_modern(tmp_path: Path) -> None:
    body = replaced(', "_meta": ' + json.dumps(META), "")

    [answer] = await refused(tmp_path, (lines(), body))

    assert code(answer) == (400, -32602, 7)


async def test_a_call_without_any_sign_of_its_era_needs_a_session(tmp_path: Path) -> None:
    body = replaced(', "_meta": ' + json.dumps(META), "")

    [answer] = await refused(tmp_path, ([], body))

    assert (answer.status, answer.message["id"]) == (400, 7)


async def test_the_id_comes_back_as_it_was_sent(tmp_path: Path) -> None:
    async with gateway(tmp_path, {"one": faulty()}) as opened:
        for id in ["0", "-1", '"text"', '""', '"é \\u0000"', "123456789012345678901234567890"]:
            good = await send(opened.url, lines(), replaced('"id": 7', f'"id": {id}'))
            bad = await send(opened.url, lines(mcp_name="other"), replaced('"id": 7', f'"id": {id}'))

            assert good.message["id"] == bad.message["id"] == json.loads(id)
            assert f'"id":{id},'.encode() in good.body
            assert (good.status, bad.status) == (200, 400)
