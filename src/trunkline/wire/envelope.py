"""JSON-RPC envelopes: decoded as far as a relay must, with everything inside kept as bytes."""

from __future__ import annotations

import re

import msgspec

from trunkline.errors import RefusedError
from trunkline.wire.members import Members, encode, is_object, read_members, read_unambiguous

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

EMPTY: Members = {}


class Message(msgspec.Struct):
    """One JSON-RPC message; what it lacks is empty. A request has `method` and `id`, a response has no `method`."""

    id: bytes = b""
    method: str = ""
    params: bytes = b""
    result: bytes = b""
    error: bytes = b""

    @property
    def number(self) -> int:
        """The id as one of the numbers that we give out; -1 when it is none of ours."""
        return int(self.id) if self.id.isdigit() and len(self.id) < 16 else -1


class _Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"")
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    """What callers send nearly always: each member once, and no other."""

    jsonrpc: str
    id: msgspec.Raw
    method: str
    params: msgspec.Raw


_decode = msgspec.json.Decoder(_Envelope).decode
_decode_request = msgspec.json.Decoder(_Request).decode
_AROUND = len(b'{"jsonrpc":"2.0","id":,"method":"","params":}')


def read_message(text: bytes) -> Message:
    """Read what a server sent; ValueError when it is not a JSON-RPC message."""
    if not text.isascii():
        text.decode()  # msgspec skips over strings without looking at their encoding
    try:
        found = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _from_members(read_members(text))
    return Message(bytes(found.id), found.method, bytes(found.params), bytes(found.result), bytes(found.error))


_KNOWN = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))


def read_caller_message(text: bytes) -> Message:
    """Read what a caller sent, refusing whatever two readers could understand differently."""
    try:
        if not text.isascii():
            text.decode()  # msgspec skips over strings without looking at their encoding
        found = _decode_request(text)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return _read_any(text)
    id, method, params = bytes(found.id), found.method, bytes(found.params)
    if found.jsonrpc != "2.0" or not method or params[:1] != b"{" or not (id.isdigit() or _is_id(id)):
        return _read_any(text)
    # Without spaces, a request is exactly as long as its members: there is no room for a second copy of one.
    # With spaces, in Python's style and order, it is compared letter by letter.
    if len(text) == _AROUND + len(id) + len(method) + len(params):
        return Message(id, method, params)
    spaced = (b'{"jsonrpc": "2.0", "id": ', id, b', "method": "', method.encode(), b'", "params": ', params, b"}")
    return Message(id, method, params) if b"".join(spaced) == text else _read_any(text)


def _read_any(text: bytes) -> Message:
    try:
        if not text.isascii():
            text.decode()
        if text.lstrip()[:1] == b"[":
            raise RefusedError("Batches are not part of MCP.", code=INVALID_REQUEST)
        members = read_unambiguous(text)
    except ValueError as error:
        raise RefusedError(f"The body is not a JSON object: {error}.", code=PARSE_ERROR) from error
    for name in members:
        if name not in _KNOWN and name.lower() in _KNOWN:
            raise RefusedError(f"{name!r} is not how JSON-RPC spells it.", code=INVALID_REQUEST)
    try:
        message = _from_members(members)
    except ValueError as error:
        raise RefusedError(f"The body is not a JSON-RPC message: {error}.", code=INVALID_REQUEST) from error
    if members.get("jsonrpc") != b'"2.0"':
        raise RefusedError("The body does not say `jsonrpc: 2.0`.", code=INVALID_REQUEST)
    if message.id and not _is_id(message.id):
        raise RefusedError("An id is a string or a whole number.", code=INVALID_REQUEST)
    if not message.method and not (message.id and (message.result or message.error)):
        raise RefusedError("The body is neither a request nor a response.", code=INVALID_REQUEST)
    return message


def read_params(message: Message) -> Members:
    """The members of a message's params, none twice."""
    if not message.params:
        return dict(EMPTY)
    try:
        return read_unambiguous(message.params)
    except ValueError as error:
        raise RefusedError("`params` is not an object.", code=INVALID_REQUEST) from error


def same_id(id: bytes) -> bytes:
    """An id in one spelling, since a text can be written with escapes or without."""
    return id if b"\\" not in id else msgspec.json.encode(msgspec.json.decode(id))


def read_string(value: bytes) -> str:
    """A JSON string; empty when the value is absent or something else."""
    # `partition` looks for bytes in a fifth of the time of `in`, which first takes them for a number, and says why not.
    if value[:1] != b'"':
        return ""
    if not value.partition(b"\\")[1]:
        return value[1:-1].decode()
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.DecodeError:
        return ""


def write_request(id: bytes, method: str, params: bytes) -> bytes:
    """One request, its params as they are."""
    name = msgspec.json.encode(method)
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"method":', name, b',"params":', params or b"{}", b"}"))


def write_notification(method: str, params: bytes = b"") -> bytes:
    """One notification, its params as they are."""
    if not params:
        return b'{"jsonrpc":"2.0","method":' + encode(method) + b"}"
    return b"".join((b'{"jsonrpc":"2.0","method":', encode(method), b',"params":', params, b"}"))


def write_result(id: bytes, result: bytes) -> bytes:
    """A response with a result, as it is."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"result":', result, b"}"))


def write_error(id: bytes, error: bytes) -> bytes:
    """A response with an error object, as it is."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id or b"null", b',"error":', error, b"}"))


def error_object(code: int, message: str, data: object = None) -> bytes:
    """An error object of our own."""
    return encode({"code": code, "message": message} | ({"data": data} if data is not None else {}))


_ID_AT = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*[,}]')


def guess_number(head: bytes, tail: bytes) -> int:
    """The request that an unreadable response answers, from its first and last bytes; -1 when there is no telling."""
    for text in (head, tail):
        # In the first bytes the earliest `id` is the envelope's; in the last ones, the latest.
        found = _ID_AT.findall(text)
        if found:
            return int(found[0] if text is head else found[-1])
    return -1


def _from_members(members: Members) -> Message:
    method = members.get("method", b"")
    name = read_string(method)
    if method and not name:
        raise ValueError("`method` is not a string")
    params = members.get("params", b"")
    if params and not is_object(params) and params != b"null":
        raise ValueError("`params` is not an object")
    return Message(
        members.get("id", b""),
        name,
        b"" if params == b"null" else params,
        members.get("result", b""),
        members.get("error", b""),
    )


def _is_id(value: bytes) -> bool:
    return value[:1] == b'"' or value.lstrip(b"-").isdigit()
