"""What is sealed opens once more, as it was, for what it was sealed for, and for nothing else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.wire.seal import MARK, Seal, context_of

SEAL = Seal(lambda: bytes(32))


@given(st.binary(max_size=60), st.binary(max_size=20))
def test_what_was_sealed_opens_in_its_context_and_in_no_other(content: bytes, context: bytes) -> None:
    text = SEAL.close(content, context)

    assert SEAL.open(text, context) == content
    with pytest.raises(ValueError, match="broken"):
        SEAL.open(text, context + b"x")
    with pytest.raises(ValueError, match="broken"):
        Seal().open(text, context)


def test_a_seal_is_another_each_time_and_shows_nothing() -> None:
    first, second = SEAL.close(b"secret-content", b""), SEAL.close(b"secret-content", b"")
    plain = base64.urlsafe_b64decode(first[len(MARK) :] + "==")

    assert first != second
    assert len(plain) == 12 + 14 + 16
    assert b"secret" not in plain
    assert plain[:12] != base64.urlsafe_b64decode(second[len(MARK) :] + "==")[:12]
    assert "=" not in first


def spellings(text: str) -> list[str]:
    """Other ways to write the same bytes, and other bytes."""
    body = text[len(MARK) :]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet[alphabet.index(body[-1]) ^ 1]
    return [
        body,
        "tl2." + body,
        MARK + MARK + body,
        text + "=",
        text + "==",
        text + "\n",
        text[:8] + " " + text[8:],
        text[:8] + "!" + text[8:],
        text[:-1] + last,
        text[:-2],
        text[:10],
        text + "A",
        text + "AAAA",
        MARK,
        "",
    ]


@pytest.mark.parametrize("number", range(len(spellings(SEAL.close(b"x", b"")))))
def test_a_seal_that_is_written_otherwise_is_not_ours(number: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        SEAL.open(spellings(SEAL.close(b"x", b""))[number], b"")


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_no_parts_pass_for_others(some: list[bytes], others: list[bytes]) -> None:
    assert (context_of(*some) == context_of(*others)) == (some == others)
    assert context_of(b"".join(some), b"") != context_of(b"", b"".join(some)) or not b"".join(some)
