"""Bytes that are nearly HTTP/1.1: mostly right, with the mistakes by which requests are smuggled."""

from __future__ import annotations

from hypothesis import strategies as st

INNER = b"GET /inner HTTP/1.1\r\nhost: localhost\r\n\r\n"
"""A request in a body: whoever reads the body's end wrongly takes it for one."""
BODIES = st.one_of(
    st.sampled_from([b"", b"{}", b"a", b"0\r\n\r\n", INNER, b"0\r\n\r\n" + INNER]), st.binary(max_size=40)
)
ENDS = st.sampled_from([b"\r\n"] * 60 + [b"\n", b"\r", b"\r\r\n", b" \r\n", b"\t\r\n", b"\0\r\n", b"\r\n "])

_ODD_FIELDS = [
    b"upgrade: h2c",
    b"Upgrade: websocket",
    b"UPGRADE: x",
    b"connection: upgrade",
    b"connection: close",
    b"Connection: keep-alive",
    b"connection: close, keep-alive",
    b"expect: 100-continue",
    b"http2-settings: AAA",
    b" folded",
    b"\tfolded, chunked",
    b"no colon",
    b": no name",
    b"x: ",
    b"x:y",
    b"x : y",
    b"x\0: y",
    b"x: a\0b",
    b"x: \xe9",
    b"x\xe9: y",
    b"x: a\x0bb",
    b"transfer_encoding: chunked",
    b"content-length : 3",
    b"transfer-encoding : chunked",
    b"content-length: 3",
    b"content-length: 0",
    b"Content-Length: 44",
    b"content-length:",
    b"content-length: +3",
    b"content-length: -1",
    b"content-length: 3, 3",
    b"content-length: 3 3",
    b"content-length: 0x3",
    b"content-length: 3.0",
    b"content-length: 18446744073709551619",
    b"content-length: 9999999999999999999999",
    b"content-length:\x0b3",
    b"transfer-encoding: chunked",
    b"Transfer-Encoding: Chunked",
    b"transfer-encoding: chunked ",
    b"transfer-encoding: gzip, chunked",
    b"transfer-encoding: chunked, identity",
    b"transfer-encoding: chunked, chunked",
    b"transfer-encoding: identity",
    b"transfer-encoding: chunked;q=1",
    b"transfer-encoding: xchunked",
    b"transfer-encoding: \x0bchunked",
    b'transfer-encoding: "chunked"',
    b"transfer-encoding:",
    b"transfer-encoding:\tchunked",
]
ODD_FIELDS = st.sampled_from(_ODD_FIELDS)
SIZES = st.sampled_from(
    [b"%x"] * 30
    + [b"%X", b"0%x", b"0000000000%x", b"%x;a", b"%x;a=b", b'%x;a="b"', b"%x ;a", b"%x ", b" %x", b"+%x", b"-%x"]
    + [b"0x%x", b"%x\t", b"%x;\n", b"%x;a\rb", b"%xg", b"10000000000000000%x", b"%x,%x", b"%x\0", b"%x;\x7f", b""]
)
TRAILERS = st.lists(
    st.sampled_from(
        [b"x: y", b"content-length: 9", b"host: evil", b"transfer-encoding: chunked", b" fold", b"bad", b"x : y"]
    ),
    max_size=2,
)


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """A body in pieces."""
    parts: list[bytes] = []
    while body:
        size = draw(st.integers(1, len(body)))
        word = draw(SIZES)
        parts += (word.replace(b"%x", b"%x" % size).replace(b"%X", b"%X" % size), draw(ENDS), body[:size], draw(ENDS))
        body = body[size:]
    parts += (draw(st.sampled_from([b"0"] * 12 + [b"00", b"0;x", b"", b"0 ", b"-0"])), draw(ENDS))
    for trailer in draw(TRAILERS):
        parts += (trailer, draw(ENDS))
    parts.append(draw(ENDS))
    return b"".join(parts)


@st.composite
def fields_and_body(draw: st.DrawFn, *fields: bytes, framed: bool) -> bytes:
    """Header fields with one end of lines each, the empty line, and a body that mostly fits them."""
    body = draw(BODIES)
    lines = list(fields)
    form = draw(st.sampled_from(["length", "chunked", "none" if framed else "length"]))
    if form == "length":
        lines.append(b"content-length: %d" % len(body))
    elif form == "chunked":
        lines.append(b"transfer-encoding: chunked")
        body = draw(chunked(body))
    else:
        body = b""
    for odd in draw(st.lists(ODD_FIELDS, max_size=2) if draw(st.integers(0, 2)) == 0 else st.just([])):
        lines.insert(draw(st.integers(0, len(lines))), odd)
    return b"".join(line + draw(ENDS) for line in lines) + draw(ENDS) + body


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request."""
    method = draw(
        st.sampled_from([b"POST"] * 12 + [b"GET", b"HEAD", b"OPTIONS", b"PUT", b"post", b"CONNECT", b"PRI", b""])
    )
    target = draw(
        st.sampled_from([b"/mcp"] * 12 + [b"/", b"*", b"/a?b#c", b"http://x/y", b"/%2e%zz", b"/\xe9", b"", b"/ x"])
    )
    version = draw(
        st.sampled_from([b"HTTP/1.1"] * 14 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1x", b""])
    )
    space = draw(st.sampled_from([b" "] * 20 + [b"  ", b"\t"]))
    before = draw(st.sampled_from([b""] * 20 + [b"\r\n", b"\n", b" ", b"\r\n\r\n"]))
    line = space.join((method, target, version))
    return before + line + draw(ENDS) + draw(fields_and_body(b"host: localhost", framed=True))


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """One response, perhaps behind interim ones."""
    interim = draw(
        st.sampled_from([b""] * 8 + [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nx: y\r\n\r\n"])
    )
    interim *= draw(st.integers(1, 3))
    version = draw(st.sampled_from([b"HTTP/1.1"] * 14 + [b"HTTP/1.0", b"HTTP/2.0", b"ICY", b"http/1.1", b""]))
    status = draw(
        st.sampled_from([b"200"] * 14 + [b"404", b"204", b"304", b"101", b"100", b"099", b"1000", b"2x0", b"20"])
    )
    line = b" ".join((version, status, draw(st.sampled_from([b"OK", b"", b"Not \xe9", b"a\0b"]))))
    kind = draw(st.sampled_from([b"application/json"] * 3 + [b"text/event-stream"]))
    return interim + line + draw(ENDS) + draw(fields_and_body(b"content-type: " + kind, framed=False))


@st.composite
def broken(draw: st.DrawFn, messages: st.SearchStrategy[bytes], *, most: int) -> bytes:
    """Some messages in a row, with at most one byte changed, dropped or added."""
    data = b"".join(draw(st.lists(messages, min_size=1, max_size=most)))
    change = draw(st.sampled_from(["nothing"] * 3 + ["drop", "add", "replace", "cut"]))
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    byte = bytes([draw(st.sampled_from([*b"\r\n\0 \t:;,0a", 0x0B, 0x7F, 0xFF]))])
    match change:
        case "drop":
            return data[:at] + data[at + 1 :]
        case "add":
            return data[:at] + byte + data[at:]
        case "replace":
            return data[:at] + byte + data[at + 1 :]
        case "cut":
            return data[:at]
        case _:
            return data


@st.composite
def in_pieces(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> list[bytes]:
    """The same bytes as they may arrive: at once, byte by byte, or cut anywhere."""
    data = draw(whole)
    how = draw(st.sampled_from(["whole", "bytes", "cuts", "cuts"]))
    if how == "whole":
        return [data]
    if how == "bytes":
        return [data[i : i + 1] for i in range(len(data))]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if b > a]
