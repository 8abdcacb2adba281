"""Tasks in the words of either era: `tasks` of 2025-11-25, and the extension of 2026-07-28."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from trunkline.wire.envelope import INTERNAL_ERROR, error_object, read_string
from trunkline.wire.members import Members, decode_object, encode, is_object, read_members, write_members
from trunkline.wire.meta import PREFIX, plain

EXTENSION = PREFIX + "tasks"
RELATED = PREFIX + "related-task"
"""Where a legacy message names the task that it belongs to, in its `_meta`."""
OFFER: Mapping[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability `tasks` of a legacy server."""
ENDED = frozenset(("completed", "failed", "cancelled"))

_DECLARED = f'"{EXTENSION}"'.encode()
_RELATED = f'"{RELATED}"'.encode()
_RENAMED = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}
_STATE = ("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval")


@lru_cache(maxsize=256)
def declares(capabilities: bytes) -> bool:
    """Whether a modern caller knows tasks."""
    return _DECLARED in capabilities


@lru_cache(maxsize=256)
def declaring(capabilities: bytes) -> bytes:
    """The capabilities of a caller, with the extension."""
    members = read_members(capabilities)
    extensions = read_members(members["extensions"]) if is_object(members.get("extensions", b"")) else {}
    return write_members({**members, "extensions": write_members({**extensions, EXTENSION: b"{}"})})


def runs_legacy(capabilities: Mapping[str, Any]) -> bool:
    """Whether a legacy server runs calls of tools as tasks."""
    found: Any = capabilities
    for step in ("tasks", "requests", "tools", "call"):
        found = cast("dict[str, Any]", found).get(step) if isinstance(found, Mapping) else None
    return found is not None


def runs_modern(capabilities: Mapping[str, Any]) -> bool:
    """Whether a modern server has the extension."""
    extensions: Any = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and EXTENSION in extensions


# A task's state.


def modern_state(task: Members, id: str) -> Members:
    """A legacy task as a modern one, under another id."""
    made = {_RENAMED.get(name, name): value for name, value in task.items()}
    return {**made, "taskId": encode(id), "ttlMs": made.get("ttlMs", b"null")}


def legacy_state(task: Members, id: str) -> Members:
    """A modern task as a legacy one, under another id; what a tool reports as its failure is one here."""
    known = {**task, "taskId": encode(id), "ttl": task.get("ttlMs", b"null")}
    if "pollIntervalMs" in task:
        known["pollInterval"] = task["pollIntervalMs"]
    if status_of(task) == "completed" and decode_object(task.get("result", b"")).get("isError") is True:
        known["status"] = b'"failed"'
    return {name: known[name] for name in _STATE if name in known}


def status_of(task: Members) -> str:
    """How a task fares."""
    return read_string(task.get("status", b""))


def poll_interval(task: Members, default: float) -> float:
    """Seconds after which its server wants to be asked again."""
    text = task.get("pollIntervalMs", task.get("pollInterval", b""))
    return min(int(text) / 1000, 60.0) if text.isdigit() and len(text) < 9 else default


def ended_state(task: Members, result: bytes, error: bytes) -> Members:
    """A task that ended, in modern words, with what came of it."""
    if error:
        return {**task, "status": b'"failed"', "error": error}
    members = unrelated(read_members(result))
    if status_of(task) == "failed" and "content" not in members:
        why = read_string(task.get("statusMessage", b"")) or "The task failed."
        return {**task, "error": error_object(INTERNAL_ERROR, why)}
    # A tool that reports a failure has completed, in modern words.
    return {**task, "status": b'"completed"', "result": write_members(members)}


# What belongs to a task.


def legacy_outcome(task: Members, id: str) -> tuple[bytes, bytes]:
    """What a legacy caller gets as the result of a modern task that ended: a result or an error."""
    match status_of(task):
        case "completed" if is_object(task.get("result", b"")):
            members = plain(read_members(task["result"]))
            return related(write_members(members), id, always=True), b""
        case "failed" if is_object(task.get("error", b"")):
            return b"", task["error"]
        case status:
            return b"", error_object(INTERNAL_ERROR, f"The task was {status}.")


def related(text: bytes, id: str, *, always: bool = False) -> bytes:
    """A message's params or result that names its task by another id; without a name it gets one only if `always`."""
    if not always and _RELATED not in text:
        return text
    members = read_members(text) if text else {}
    inner = read_members(members["_meta"]) if is_object(members.get("_meta", b"")) else {}
    if RELATED in inner or always:
        inner[RELATED] = encode({"taskId": id})
        members["_meta"] = write_members(inner)
    return write_members(members)


def related_task(params: bytes) -> str:
    """The task that a legacy message belongs to; empty when it names none."""
    if _RELATED not in params:
        return ""
    inner: Any = decode_object(params).get("_meta")
    named: Any = cast("dict[str, Any]", inner).get(RELATED) if isinstance(inner, dict) else None
    return str(cast("dict[str, Any]", named).get("taskId", "")) if isinstance(named, dict) else ""


def unrelated(members: Members) -> Members:
    """A result that no longer names its task."""
    if _RELATED not in members.get("_meta", b""):
        return members
    inner = {name: value for name, value in read_members(members["_meta"]).items() if name != RELATED}
    rest = {name: value for name, value in members.items() if name != "_meta"}
    return {**rest, "_meta": write_members(inner)} if inner else rest
