"""Which era a server speaks, told from its answer to `server/discover`."""

from __future__ import annotations

import pytest

from trunkline.wire.envelope import Message
from trunkline.wire.era import error_code, negotiate, speaks_modern


def refusal(code: object) -> Message:
    return Message(b"1", error=b'{"code":%s,"message":"no"}' % str(code).encode())


DISCOVERED = Message(b"1", result=b'{"supportedVersions":["2026-07-28"],"capabilities":{}}')


@pytest.mark.parametrize(
    ("answer", "over_http", "status", "modern"),
    [
        (None, True, 404, False),
        (None, False, 200, False),
        (DISCOVERED, True, 200, True),
        (DISCOVERED, False, 200, True),
        (Message(b"1", result=b"{}"), True, 200, False),
        (Message(b"1", result=b"null"), True, 200, False),
        (Message(b"1", result=b"[1]"), False, 200, False),
        (Message(b"1", result=b'{"supportedVersions'), False, 200, False),
        (refusal(-32020), True, 400, True),
        (refusal(-32021), True, 400, True),
        (refusal(-32022), True, 400, True),
        (refusal(-32022), False, 200, True),
        (refusal(-32601), True, 404, True),
        (refusal(-32601), True, 400, False),
        (refusal(-32601), True, 200, False),
        (refusal(-32601), False, 200, False),
        (refusal(-32600), True, 400, False),
        (refusal(-32000), True, 404, False),
        (refusal('"-32022"'), True, 400, False),
        (Message(b"1", error=b"null"), True, 400, False),
        (Message(b"1", error=b"[]"), True, 400, False),
        (Message(b"1", error=b"{broken"), True, 400, False),
        (Message(b"1"), True, 200, False),
    ],
)
def test_the_answer_to_discover_tells_the_era(
    answer: Message | None, over_http: bool, status: int, modern: bool
) -> None:
    assert speaks_modern(answer, over_http=over_http, status=status) is modern


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_a_handshake_ends_with_a_version_that_has_one(requested: str, answered: str) -> None:
    assert negotiate(requested) == answered


@pytest.mark.parametrize(("error", "code"), [(b"", 0), (b'{"code":-5}', -5), (b'{"code":"x"}', 0), (b"{}", 0)])
def test_an_error_without_a_number_has_code_zero(error: bytes, code: int) -> None:
    assert error_code(error) == code
