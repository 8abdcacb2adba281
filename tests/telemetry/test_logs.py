"""The log: one line for each event, for people or for programs, whatever stands in it (CHECKS A23)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from trunkline.telemetry.logs import JsonFormatter, TextFormatter, current_trace

HOSTILE = "files\r\n2026-11-18 00:00:00,000 ERROR forged\x1b[2J\x85\u2028\u2029\0end"


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, logging.Handler, io.StringIO]]:
    stream = io.StringIO()
    handler, logger = logging.StreamHandler(stream), logging.getLogger("trunkline.test_logs")
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, handler, stream
    logger.removeHandler(handler)


Written = tuple[logging.Logger, logging.Handler, io.StringIO]


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_what_a_server_calls_itself_cannot_begin_a_line(written: Written, formatter: logging.Formatter) -> None:
    logger, handler, stream = written
    handler.setFormatter(formatter)

    logger.warning("Server %s failed.", HOSTILE, extra={"server": HOSTILE})

    assert len(stream.getvalue().splitlines()) == 1
    assert stream.getvalue().strip().isprintable()


def test_a_line_for_programs_says_when_how_bad_what_and_of_whom(written: Written) -> None:
    logger, handler, stream = written
    handler.setFormatter(JsonFormatter())
    token = current_trace.set("4bf92f3577b34da6a3ce929d0e0e4736")
    try:
        logger.warning("Server %s: ü", "files", extra={"server": "files", "secret": "not told"})
    finally:
        current_trace.reset(token)

    told = json.loads(stream.getvalue())

    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "warning",
        "message": "Server files: ü",
        "logger": "trunkline.test_logs",
        "server": "files",
        "trace": "4bf92f3577b34da6a3ce929d0e0e4736",
    }


def test_where_an_error_comes_from_stands_in_its_line(written: Written) -> None:
    logger, handler, stream = written
    handler.setFormatter(JsonFormatter())
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("It failed")

    (line,) = stream.getvalue().splitlines()

    assert "ValueError: files\r\n" in json.loads(line)["error"]


def test_for_people_it_stands_below_and_begins_no_line_of_its_own(written: Written) -> None:
    logger, handler, stream = written
    handler.setFormatter(TextFormatter())
    token = current_trace.set("ab" * 16)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("It failed")
    finally:
        current_trace.reset(token)

    first, *rest = stream.getvalue().splitlines()

    assert first.endswith(f"ERROR It failed trace={'ab' * 16}")
    assert all(line.startswith("  ") for line in rest)
