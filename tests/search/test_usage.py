"""What use teaches, apart for every user and thread."""

from __future__ import annotations

from trunkline.search.usage import Learned


def test_a_tool_that_served_in_a_thread_gains_most_there_and_half_elsewhere() -> None:
    learned = Learned(clock=lambda: 0.0)

    learned.record("ana", "t1", "files/read", ok=True)

    here, elsewhere = learned.boost("ana", "t1")("files/read"), learned.boost("ana", "t2")("files/read")
    assert here > elsewhere > 0
    assert elsewhere == here / 2


def test_nobody_gains_from_what_served_another_user() -> None:
    learned = Learned()

    learned.record("ana", "t1", "files/read", ok=True)

    assert learned.boost("bob", "t1")("files/read") == 0
    assert learned.boost("", "")("files/read") == 0


def test_a_tool_that_failed_gains_nothing() -> None:
    learned = Learned()

    learned.record("ana", "", "files/read", ok=False)

    assert learned.boost("ana", "")("files/read") == 0


def test_what_was_learned_fades() -> None:
    now = [0.0]
    learned = Learned(clock=lambda: now[0])
    learned.record("ana", "", "files/read", ok=True)
    fresh = learned.boost("ana", "")("files/read")

    now[0] = 10 * 86_400.0

    assert learned.boost("ana", "")("files/read") < fresh / 100


def test_the_scopes_that_are_remembered_are_bounded_and_the_latest_stay() -> None:
    learned = Learned()

    for number in range(3_000):
        learned.record(f"user {number}", "", "files/read", ok=True)

    assert learned.boost("user 0", "")("files/read") == 0
    assert learned.boost("user 2999", "")("files/read") > 0
