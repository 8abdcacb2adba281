"""The audit: a chain of lines in which any change is found, and what happens when it cannot be written."""

from __future__ import annotations

import json
import resource
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.call.stages.till import USERS, Till, able, calls, teller, till
from tests.gateway.test_calls import ADMIN, get, house
from tests.harness import LegacyCaller, until
from trunkline.config.records import AuditSection
from trunkline.errors import ConfigError
from trunkline.telemetry.audit import Audit
from trunkline.telemetry.audit_chain import entries, files_in, verify
from trunkline.telemetry.record import ASKED, CallRecord

Json = dict[str, Any]
ON: Json = {"enabled": True}


def chain(folder: Path, lines: int, **options: Any) -> Audit:
    """An audit with so many lines about changes."""
    audit = Audit(AuditSection(enabled=True, on_failure="refuse", **options), folder, b"key")
    audit.open()
    for number in range(lines):
        audit.add("change", {"path": f"/api/v1/users/{number}"})
    return audit


def altered(change: Callable[[list[bytes]], object]) -> Callable[[Path], None]:
    def alter(folder: Path) -> None:
        (path,) = files_in(folder)
        lines = path.read_bytes().splitlines(keepends=True)
        change(lines)
        path.write_bytes(b"".join(lines))

    return alter


def swapped(lines: list[bytes]) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def changed(lines: list[bytes]) -> None:
    lines[5] = lines[5].replace(b"users/3", b"users/9")


def without_end(folder: Path) -> None:
    (folder / "end").unlink()


ALTERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "changed": (altered(changed), "line 6: line number 6 was changed"),
    "removed": (altered(lambda lines: lines.pop(5)), "line 6: it has number 7, and 6 was to come"),
    "swapped": (altered(swapped), "line 5: it has number 6, and 5 was to come"),
    "doubled": (altered(lambda lines: lines.insert(5, lines[4])), "line 6: it has number 5, and 6 was to come"),
    "cut short": (altered(lambda lines: lines.pop()), "lines 13 to 13 are missing at the end"),
    "cut within": (altered(lambda lines: lines.append(lines.pop()[:-9])), "line 13: this is no line"),
    "without a beginning": (altered(lambda lines: lines.pop(0)), "line 1: a file begins with a line that says"),
    "without its end": (without_end, "the file 'end' is missing"),
}


@pytest.mark.parametrize("how", ALTERED)
def test_any_change_is_found_and_where_it_is_said(tmp_path: Path, how: str) -> None:
    chain(tmp_path, 10).close()
    before = verify(tmp_path)
    alter, words = ALTERED[how]

    alter(tmp_path)

    assert (before.problem, before.lines) == ("", 13)
    assert words in verify(tmp_path).problem


@pytest.fixture(scope="module")
def two_chains(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[str, bytes]], list[bytes]]:
    """Every file of a chain over several of them, and the lines of another chain, of the same length."""
    folders = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
    for folder in folders:
        chain(folder, 60, file_bytes=4096).close()
        assert verify(folder).problem == ""
        assert len(files_in(folder)) > 2
    found = [(path.name, path.read_bytes()) for path in (*files_in(folders[0]), folders[0] / "end")]
    return found, b"".join(path.read_bytes() for path in files_in(folders[1])).splitlines(keepends=True)


def edited(draw: Callable[..., Any], lines: list[bytes], other: list[bytes]) -> list[bytes]:
    """Lines that somebody changed; never what they were."""
    at: int = draw(st.integers(0, len(lines) - 1), label="line")
    to = draw(st.integers(0, len(lines) - 1).filter(lambda place: place != at), label="another")
    byte: int = draw(st.integers(0, len(lines[at]) - 1), label="byte")
    new = draw(st.integers(0, 255).filter(lambda value: value != lines[at][byte]), label="value")
    ways: dict[str, list[bytes]] = {
        "change a byte": [*lines[:at], lines[at][:byte] + bytes([new]) + lines[at][byte + 1 :], *lines[at + 1 :]],
        "insert a byte": [*lines[:at], lines[at][:byte] + bytes([new]) + lines[at][byte:], *lines[at + 1 :]],
        "remove": [*lines[:at], *lines[at + 1 :]],
        "swap": [lines[{at: to, to: at}.get(number, number)] for number in range(len(lines))],
        "double": [*lines[: to + 1], lines[at], *lines[to + 1 :]],
        "cut": [b"".join(lines)[: -draw(st.integers(1, len(b"".join(lines))), label="bytes")]],
        "splice": [*lines[: max(1, at)], *other[max(1, at) :]],
        "one of another chain": [*lines[:at], other[at], *lines[at + 1 :]],
        "add": [*lines, draw(st.binary(min_size=1, max_size=40))],
    }
    return ways[draw(st.sampled_from(sorted(ways)), label="how")]


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_somebody_does_to_a_file_is_found(
    tmp_path: Path, two_chains: tuple[list[tuple[str, bytes]], list[bytes]], data: st.DataObject
) -> None:
    files, other = two_chains
    *logs, (mark, end) = files
    place = data.draw(st.integers(0, len(logs) - 1), label="file")
    before = sum(content.count(b"\n") for _, content in logs[:place])
    lines = logs[place][1].splitlines(keepends=True)
    changed = b"".join(edited(data.draw, lines, other[before:]))
    if changed == logs[place][1]:
        return
    for name, content in logs:
        (tmp_path / name).write_bytes(content)
    (tmp_path / mark).write_bytes(end)
    (tmp_path / logs[place][0]).write_bytes(changed)

    assert verify(tmp_path).problem != ""


def test_a_chain_goes_on_across_processes_and_files_and_none_of_them_can_be_taken_out(tmp_path: Path) -> None:
    for _ in range(3):
        chain(tmp_path, 20, file_bytes=4096).close()
    files, whole = files_in(tmp_path), verify(tmp_path)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in files}
    files[1].unlink()

    assert len(files) > 2
    assert modes == {0o600}
    assert (whole.problem, whole.lines) == ("", whole.number)
    assert verify(tmp_path, expected=whole.hash).problem.startswith(files[2].name)


def test_a_hash_that_was_kept_elsewhere_shows_that_the_whole_chain_was_made_anew(tmp_path: Path) -> None:
    chain(tmp_path / "one", 3).close()
    anew = chain(tmp_path / "two", 3)
    anew.add("change", {"path": "/api/v1/users/another"})
    anew.close()
    kept = verify(tmp_path / "one").hash

    assert verify(tmp_path / "one", expected=kept).problem == ""
    assert "hash that was expected" in verify(tmp_path / "two", expected=kept).problem


def test_files_that_are_too_much_go_and_the_chain_says_so(tmp_path: Path) -> None:
    audit = chain(tmp_path, 200, file_bytes=4096, max_bytes=16384)
    before = len(files_in(tmp_path))
    audit.retain()
    audit.close()
    kept = files_in(tmp_path)
    found = verify(tmp_path)
    kept[0].unlink()

    assert len(kept) <= 5 < before
    assert found.problem == ""
    assert found.lines < found.number
    assert "are missing, and nothing says that their time was up" in verify(tmp_path).problem


def test_a_line_that_a_crash_left_half_is_cut_off_and_told(tmp_path: Path) -> None:
    audit = chain(tmp_path, 3)
    audit.close()
    with open(files_in(tmp_path)[0], "ab") as file:
        file.write(b'{"n":7,"time":"20')

    chain(tmp_path, 1).close()

    assert verify(tmp_path).problem == ""
    assert [line["kind"] for line in entries(tmp_path)].count("torn") == 1


def test_two_processes_do_not_write_one_chain(tmp_path: Path) -> None:
    audit = chain(tmp_path, 1)
    with pytest.raises(ConfigError, match="Another process writes the audit"):
        chain(tmp_path, 1)
    audit.close()


def test_what_is_remembered_for_lines_about_calls_is_written_as_json_writes_it(tmp_path: Path) -> None:
    odd = 'q"uo\\te\n\x00\u2028é字😀'
    who = CallRecord("1a1f", 1.75e9, odd, "ana", "key", odd, "", odd, odd, "tools/call", odd, odd, odd, listed=True)
    calls = [
        who,
        copy(who),
        copy(who),
        CallRecord("1a20", 1.75e9 + 1.25, "", "", "", "", "", "", "", "ping", "", "", "", False),
    ]
    calls[0].outcome, calls[0].alike, calls[0].path = "asked", 7, [("entry", "s", 0.0), (ASKED, "the caller", 0.5)]
    calls[1].outcome, calls[1].alike, calls[1].seconds, calls[1].digest = "answered", 7, 0.00001249, "ab12"
    calls[2].outcome, calls[2].code, calls[2].error, calls[2].trace = "failed", -32000, odd, "4bf9"
    calls[3].outcome, calls[3].seconds = "refused", 123456.7890126

    audit = chain(tmp_path, 0)
    audit.read(calls)
    audit.close()
    lines = [line for line in entries(tmp_path) if "call" in line]

    said = {"user": odd, "key": "key", "thread": odd, "client": odd}
    one = {"call": "1a1f", "who": said, "method": "tools/call", "name": odd, "server": odd, "tool": odd, "program": odd}
    at = {"time": "2025-06-15T15:06:40.000Z"}
    assert [{name: value for name, value in line.items() if name not in ("n", "hash")} for line in lines] == [
        {"time": "2025-06-15T15:06:40.500Z", "kind": "question", **one, "outcome": "asked", "seconds": 0.5},
        {**at, "kind": "question", **one, "outcome": "asked", "seconds": 0.0},
        {**at, "kind": "call", **one, "outcome": "answered", "seconds": 0.000012, "arguments": "ab12"},
        {**at, "kind": "call", **one, "outcome": "failed", "seconds": 0.0, "code": -32000, "error": odd,
         "trace": "4bf9"},
        {"time": "2025-06-17T01:24:18.039Z", "kind": "call", "call": "1a20", "who": {}, "method": "ping", "name": "",
         "server": "", "outcome": "refused", "seconds": 123456.789013},
    ]  # fmt: skip
    assert verify(tmp_path).problem == ""


@contextmanager
def full_disk(path: Path) -> Generator[None]:
    """No file may grow beyond what this one has: for the process, the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("on_failure", ["refuse", "warn"])
async def test_a_full_disk_stops_calls_or_not_as_configured_and_no_line_is_lost(
    tmp_path: Path, http: aiohttp.ClientSession, on_failure: str
) -> None:
    audit = {"enabled": True, "on_failure": on_failure}
    marked = teller(tmp_path, tools={"pay": {"audit_required": True}})
    async with till(tmp_path, http, servers={"till": marked}, audit=audit) as at:
        folder, caller = tmp_path / "home" / "audit", at.modern()
        await caller.call("get_balance", {"account": "before"})
        await until(lambda: "get_balance" in str(list(entries(folder))))
        with full_disk(files_in(folder)[0]):
            first = await caller.call("get_balance", {"account": "unnoticed"})
            at.hub.relay.recording.records.drain()
            written = at.hub.relay.recording.audit
            assert written is not None
            written.flush()
            second = await caller.call("get_balance", {"account": "noticed"})
            paid = await caller.call("pay", {"account": "rent"})
        written.flush()
        after = await caller.call("get_balance", {"account": "after"})

    assert (first.status, after.status) == (200, 200)
    assert ("error" in second.message) is (on_failure == "refuse")
    assert "error" in paid.message  # a tool that is marked is never called without its line
    assert calls(tmp_path, "pay") == []
    assert verify(folder).problem == ""
    told = [line["outcome"] for line in entries(folder) if line.get("name") == "get_balance"]
    assert told.count("answered") == (3 if on_failure == "refuse" else 4)


async def test_a_tool_that_wants_the_audit_is_not_called_where_there_is_none(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    hinted = {"name": "get_secret", "inputSchema": {}, "annotations": {"auditRequired": True}}
    spec = teller(tmp_path, more=[hinted], tools={"pay": {"audit_required": True}})
    released = teller(tmp_path, more=[hinted], tools={"get_secret": {"audit_required": False}})
    async with till(tmp_path, http, servers={"till": spec}) as at:
        refused = [await at.modern().call(name, {"account": "rent"}) for name in ("pay", "get_secret")]
        usual = await at.modern().call("get_balance", {"account": "rent"})
        ended = (await get(at, "/api/v1/calls?tool=pay", ""))["calls"]
        await at.apply({"till": spec}, audit=ON)
        paid = await at.modern().call("pay", {"account": "rent"})
        await at.apply({"till": released})
        await until(lambda: at.hub.snapshot.tools)
        freed = await at.modern().call("get_secret", {"account": "rent"})

    for one in refused:
        assert (one.status, "[audit] `enabled = true`" in str(one.message["error"])) == (403, True)
    assert [call["outcome"] for call in ended] == ["refused"]
    assert usual.text
    assert at.calls("pay") == ["till pay rent"]
    assert "error" not in paid.message
    assert "error" not in freed.message


async def asked_and_told_no(at: Till) -> None:
    """A legacy caller is asked whether it agrees, on the stream of its call, and says no."""
    caller = LegacyCaller(at.opened.url, at.http, capabilities={"elicitation": {"form": {}}})
    caller.headers["authorization"] = f"Bearer {USERS['bob']}"
    caller.info = {"name": "old", "version": "1"}
    await caller.open()
    async with caller.stream("tools/call", {"name": "pay", "arguments": {"account": "rent"}}) as stream:
        await caller.answer((await stream.next())["id"], {"action": "decline"})
        await stream.next()


async def test_who_wanted_a_command_started_is_in_the_audit_whether_known_or_not(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    canary = tmp_path / "canary"
    body = {"name": "evil", "command": "/bin/sh", "args": ["-c", f"touch {canary}"]}
    async with house(tmp_path, http, audit=ON) as at:
        base = at.opened.url.removesuffix("/mcp")
        for token, scope, status in (("nonsense", "user", 401), (USERS["bob"], "user", 403), (ADMIN, "app", 403)):
            headers, wanted = {"authorization": f"Bearer {token}"}, {**body, "scope": scope}
            async with at.http.post(f"{base}/api/v1/servers", json=wanted, headers=headers) as answer:
                assert answer.status == status, await answer.text()
        told = [line for line in (await get(at, "/api/v1/audit"))["lines"] if line["kind"] == "refusal"]

    assert [(line["path"], line["status"]) for line in told] == [("/api/v1/servers", code) for code in (403, 403, 401)]
    assert [line.get("who", {}).get("user") for line in told] == [None, "bob", None]
    assert not canary.exists()


async def test_calls_questions_changes_refusals_and_processes_are_in_the_audit(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with house(tmp_path, http, audit=ON) as at:
        await at.modern("ana").call("get_balance", {"account": "the secret of this call"})
        await at.modern("ana").call("get_balance", {"account": "the secret of this call"})
        await at.modern("ana").call("pay", {"account": "rent"}, meta=able())
        await asked_and_told_no(at)
        await get(at, "/api/v1/users", "nonsense-and-more", status=401)
        await get(at, "/api/v1/audit", "the-long-token-of-ana", status=403)
        base = at.opened.url.removesuffix("/mcp")
        headers = {"authorization": f"Bearer {ADMIN}"}
        await at.http.post(f"{base}/api/v1/users", json={"name": "carl"}, headers=headers)
        await at.apply({}, audit=ON)
        told = (await get(at, "/api/v1/audit"))["lines"]
        page = await get(at, "/api/v1/audit?kind=call&user=ana&limit=1")
        rest = await get(at, f"/api/v1/audit?kind=call&user=ana&cursor={page['cursor']}")
    folder = tmp_path / "home" / "audit"
    text = "".join(path.read_text() for path in files_in(folder))

    kinds = [line["kind"] for line in reversed(told)]
    assert {"start", "process", "call", "question", "refusal", "change"} <= set(kinds)
    questions = [(line["who"]["client"], line["name"]) for line in told if line["kind"] == "question"]
    assert questions == [("old 1", "pay"), ("test 1", "pay")]  # in the middle of a call, and between two requests
    made = next(line for line in told if line.get("path") == "/api/v1/users" and line["kind"] == "change")
    assert (made["who"], made["method"]) == ({"role": "admin"}, "POST")
    assert [line["status"] for line in told if line["kind"] == "refusal"] == [403, 401]
    second, first = page["lines"] + rest["lines"]
    assert (first["who"]["user"], first["server"], first["outcome"]) == ("ana", "till", "answered")
    assert first["arguments"] == second["arguments"]
    assert any(line.get("what") == "configuration" for line in told)
    assert "the secret" not in text
    assert json.loads(text.splitlines()[0])["kind"] == "file"
    assert verify(folder).problem == ""
