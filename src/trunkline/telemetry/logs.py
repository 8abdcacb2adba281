"""What is written to the log: one line for each event, for people, or as JSON for programs."""

from __future__ import annotations

import json
import logging
import time
from contextvars import ContextVar
from functools import lru_cache
from typing import Literal

from trunkline.untrusted import printable

LogFormat = Literal["text", "json"]

FACTS = ("server", "state", "tool", "user", "outcome", "seconds")
"""What a line may say besides its message, by these names of `extra`."""

current_trace: ContextVar[str] = ContextVar("current_trace", default="")
"""The id of the trace of whatever runs now; empty where nothing is traced."""


class TextFormatter(logging.Formatter):
    """One line for people; what servers and callers sent cannot begin another."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; below it, indented, where an error comes from."""
        line = f"{self.formatTime(record)} {record.levelname} {printable(record.getMessage())}"
        trace = _trace_of(record)
        if trace:
            line += f" trace={trace}"
        if record.exc_info:
            line += "".join(f"\n  {printable(part)}" for part in self.formatException(record.exc_info).splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """One object for programs, on one line whatever it holds."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        told: dict[str, object] = {
            "time": utc_time(record.created),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name,
        }
        for name in FACTS:
            value = record.__dict__.get(name, "")
            if value != "":
                told[name] = value
        trace = _trace_of(record)
        if trace:
            told["trace"] = trace
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str).translate(_LINE_ENDS)


def use_format(name: LogFormat) -> None:
    """Write every line like this from now on."""
    formatter = JsonFormatter() if name == "json" else TextFormatter()
    for handler in logging.getLogger().handlers:
        handler.setFormatter(formatter)
    logging.captureWarnings(name == "json")


def is_json() -> bool:
    """Whether lines are for programs."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""What JSON leaves as it is, but some readers take for the end of a line."""


def utc_time(seconds: float) -> str:
    """A moment as programs read it: UTC, to the millisecond."""
    whole = int(seconds)
    return _second(whole) + _PARTS[int((seconds - whole) * 1000)]


_PARTS = tuple(f".{part:03d}Z" for part in range(1000))
"""Ends of such times: every line of a log and of the audit has one."""


@lru_cache(maxsize=16)
def _second(whole: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


def _trace_of(record: logging.LogRecord) -> str:
    return record.__dict__.get("trace", "") or current_trace.get()
