"""Secrets and files: a person gives them to a page of the gateway's own, past the model and its client."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.harness import Heard, LegacyCaller, ModernCaller, faulty, gateway, until
from tests.questions.scene import declared, inside
from trunkline import CallNext, FileReference, FormField, Secret, Tool, ToolContext, ToolResult
from trunkline.gateway.serve import Gateway
from trunkline.questions.fields import FieldValidation

Json = dict[str, Any]
URLS: Json = {"elicitation": {"url": {}}}
USERS = {"ana": "ana-token-0123456789", "bob": "bob-token-0123456789"}
CANARY = "canary-4711-hunter2"
ACCEPT: Json = {"action": "accept"}

Question = Callable[[Any], Awaitable[Any]]
"""What the middleware asks, of the context's `elicitation`."""


async def secret(elicitation: Any) -> Any:
    return await elicitation.get_secret("Which password?", hint="of the vault")


async def one_file(elicitation: Any) -> Any:
    return await elicitation.file("Which file?", accept=(".txt", ".eml", ".bin"), max_size=10_000)


async def form(elicitation: Any) -> Any:
    long = FieldValidation(min=12)
    password = FormField("password", "Password", "password", required=True, validation=long)
    return await elicitation.form("Who are you?", [FormField("name", "Name", required=True), password])


@dataclass
class Asked:
    """A gateway whose middleware asks before every call, and what it got."""

    opened: Gateway
    http: aiohttp.ClientSession
    got: list[Any] = field(default_factory=list[Any])
    contents: list[bytes] = field(default_factory=list[bytes])
    """What was in the files, read while the call lasted."""

    def caller(self, token: str = "") -> ModernCaller:
        return ModernCaller(self.opened.url, self.http, token=token)

    async def begin(self, token: str = "", capabilities: Json = URLS) -> Heard:
        """A modern caller's first request."""
        return await self.caller(token).call("echo", {"text": "hello"}, meta=declared(capabilities))

    async def go_on(self, heard: Heard, token: str = "", answer: Json = ACCEPT) -> Heard:
        """Its next, after the person opened the page or did not."""
        answers = dict.fromkeys(heard.result["inputRequests"], answer)
        state = heard.result["requestState"]
        params = {"name": "echo", "arguments": {"text": "hello"}, "requestState": state, "inputResponses": answers}
        return await self.caller(token).request("tools/call", params, meta=declared(URLS))

    async def get(self, url: str) -> tuple[int, str]:
        async with self.http.get(url) as response:
            return response.status, await response.text()

    async def send(self, url: str, data: Any, **headers: str) -> tuple[int, str]:
        """Send the page's form, as a browser does."""
        async with self.http.post(url, data=data, headers=headers) as response:
            return response.status, await response.text()


def page_of(heard: Heard) -> str:
    """The address that a modern result asks to have opened."""
    assert heard.result["resultType"] == "input_required"
    (question,) = heard.result["inputRequests"].values()
    assert question["method"] == "elicitation/create"
    assert question["params"]["mode"] == "url"
    return question["params"]["url"]


@asynccontextmanager
async def asking(
    home: Path, http: aiohttp.ClientSession, question: Question = secret, **options: Any
) -> AsyncGenerator[Asked]:
    """A gateway that asks a question before every call of a tool."""
    async with gateway(home, {"one": faulty()}, **options) as opened:
        at = Asked(opened, http)

        async def ask(tool: Tool, params: Json, context: ToolContext, call_next: CallNext) -> ToolResult:
            answer = None if context.elicitation is None else await question(context.elicitation)
            at.got.append(answer)
            if isinstance(answer, tuple):
                files = cast("tuple[FileReference, ...]", answer)
                at.contents += [Path(file.path).read_bytes() for file in files]  # noqa: ASYNC240 - it is small
            return await call_next()

        opened.hub.use(ask)
        yield at


# A secret.


async def test_a_secret_goes_from_the_person_to_us_past_a_modern_caller(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with asking(tmp_path, http, sections={"middleware": {"logging": True}}) as at:
        asked = await at.begin()
        status, page = await at.get(page_of(asked))
        sent = await at.send(page_of(asked), {"value": CANARY})
        told = await at.go_on(asked)

    assert status == 200
    assert 'type="password"' in page
    assert "Which password?" in page
    assert sent[0] == 200
    assert at.got == [Secret(CANARY)]
    assert told.text == "hello"
    for shown in (asked.raw.decode(), told.raw.decode(), page, sent[1], caplog.text, repr(at.got)):
        assert CANARY not in shown


async def test_a_legacy_callers_person_is_asked_in_the_same_way(
    tmp_path: Path, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with asking(tmp_path, http) as at:
        caller = await LegacyCaller(at.opened.url, http, capabilities=URLS).open()
        async with caller.stream("tools/call", {"name": "echo", "arguments": {"text": "hello"}}) as events:
            asked = await events.next()
            await at.send(asked["params"]["url"], {"value": CANARY})
            await caller.answer(asked["id"], ACCEPT)
            told = await events.next()

    assert (asked["method"], asked["params"]["mode"]) == ("elicitation/create", "url")
    assert asked["params"]["elicitationId"]
    assert told["result"]["content"][0]["text"] == "hello"
    assert at.got == [Secret(CANARY)]
    assert CANARY not in f"{asked} {told} {caplog.text}"


async def test_a_caller_may_agree_before_the_person_has_answered(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http) as at, asyncio.TaskGroup() as group:
        asked = await at.begin()
        waiting = group.create_task(at.go_on(asked))
        await until(lambda: len(inside(inside(at.opened.app, "_asking"), "_parking")) == 0)
        await at.send(page_of(asked), {"value": CANARY})

    assert waiting.result().text == "hello"
    assert at.got == [Secret(CANARY)]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_does_not_go_there_is_asked_no_more(
    tmp_path: Path, http: aiohttp.ClientSession, action: str
) -> None:
    async with asking(tmp_path, http) as at:
        asked = await at.begin()
        told = await at.go_on(asked, answer={"action": action})
        status, _ = await at.get(page_of(asked))

    assert told.text == "hello"
    assert at.got == [None]
    assert status == 404


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_a_caller_that_opens_no_addresses_is_not_asked(
    tmp_path: Path, http: aiohttp.ClientSession, capabilities: Json
) -> None:
    async with asking(tmp_path, http) as at:
        modern = await at.begin(capabilities=capabilities)
        legacy = await LegacyCaller(at.opened.url, http, capabilities=capabilities).open()
        told = await legacy.call("echo", {"text": "hello"})
        open_pages = len(inside(inside(at.opened.app, "_pages"), "_open"))

    assert modern.text == told.text == "hello"
    assert told.before == []
    assert at.got == [None, None]
    assert open_pages == 0


# Whose page it is, and for how long.


async def test_a_page_takes_one_answer_and_is_gone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http) as at:
        url = page_of(asked := await at.begin())
        statuses = await at_the_same_moment(url, b"value=one", b"value=other")
        after = [(await at.get(url))[0], (await at.send(url, {"value": "late"}))[0]]
        await at.go_on(asked)

    assert statuses == [200, 404]
    assert after == [404, 404]
    assert at.got == [Secret("one")]


async def at_the_same_moment(url: str, *bodies: bytes) -> list[int]:
    """Send forms so that all have arrived before the first is looked at; how each was answered."""
    parts = urlsplit(url)
    lines = [await asyncio.open_connection(parts.hostname, parts.port) for _ in bodies]
    for (_, writer), body in zip(lines, bodies, strict=True):
        head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Content-Type: application/x-www-form-urlencoded\r\n\r\n" + body)
    statuses = [int((await reader.readline()).split()[1]) for reader, _ in lines]
    for _, writer in lines:
        writer.close()
        await writer.wait_closed()
    return statuses


async def test_an_address_that_nobody_gave_out_is_nothing(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http) as at:
        url = page_of(await at.begin())
        found = [(await at.get(address))[0] for address in (url[:-1], url + "x", url.rpartition("/")[0] + "/")]
        others = [(await http.request(method, url)).status for method in ("PUT", "DELETE")]

    assert found == [404, 404, 404]
    assert others == [405, 405]


async def test_when_the_time_to_answer_is_up_the_page_is_gone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def briefly(elicitation: Any) -> Any:
        return await elicitation.get_secret("Which password?", timeout=0.2)

    async with asking(tmp_path, http, briefly) as at:
        url = page_of(asked := await at.begin())
        await until(lambda: at.got)
        status, _ = await at.send(url, {"value": CANARY})
        told = await at.go_on(asked)

    assert status == 404
    assert told.text == "hello"
    assert at.got == [None]


async def test_when_the_caller_never_comes_back_the_page_is_gone(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http, question_timeout=0.2) as at:
        url = page_of(await at.begin())
        pages = inside(inside(at.opened.app, "_pages"), "_open")
        await until(lambda: not pages)
        status, _ = await at.get(url)

    assert status == 404
    assert at.got == []


async def test_the_page_of_a_user_wants_that_users_token_and_no_others(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with asking(tmp_path, http, users=USERS) as at:
        url = page_of(asked := await at.begin(USERS["ana"]))
        _, page = await at.get(url)
        refused = [
            await at.send(url, {"value": CANARY, "trunkline-token": token}) for token in (USERS["bob"], "", "guess")
        ]
        refused.append(await at.send(url, {"value": CANARY}))
        refused.append(await at.send(url, {"value": CANARY}, authorization=f"Bearer {USERS['bob']}"))
        taken = await at.send(url, {"value": CANARY, "trunkline-token": USERS["ana"]})
        told = await at.go_on(asked, USERS["ana"])

    assert 'name="trunkline-token"' in page
    assert [status for status, _ in refused] == [403] * 5
    assert not any(CANARY in text or token in text for _, text in refused for token in USERS.values())
    assert taken[0] == 200
    assert told.text == "hello"
    assert at.got == [Secret(CANARY)]


async def test_one_user_cannot_go_on_with_the_call_of_another(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http, users=USERS) as at:
        asked = await at.begin(USERS["ana"])
        foreign = await at.go_on(asked, USERS["bob"])

    assert foreign.error["code"] == -32602


# What the page is made of.


async def test_the_page_lets_nothing_in_and_is_kept_nowhere(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http) as at:
        url = page_of(await at.begin())
        shown = [await http.get(url), await http.post(url, data={"value": ""}), await http.get(url + "x")]

    for response in shown:
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["referrer-policy"] == "same-origin"
        assert response.headers["x-content-type-options"] == "nosniff"
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy


async def test_what_is_asked_cannot_be_markup(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    evil = '"><script>alert(1)</script>'

    async def ask(elicitation: Any) -> Any:
        fields = [FormField(evil, evil, "password", required=True), FormField("x", evil)]
        return await elicitation.form(evil, fields, tool_name=evil, server_id=evil)

    async with asking(tmp_path, http, ask) as at:
        _, page = await at.get(page_of(await at.begin()))

    assert "<script" not in page
    assert html.escape(evil) in page


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example"])
async def test_a_page_of_somebody_else_can_send_nothing(
    tmp_path: Path, http: aiohttp.ClientSession, origin: str
) -> None:
    async with asking(tmp_path, http) as at:
        url = page_of(asked := await at.begin())
        foreign, _ = await at.send(url, {"value": "forged"}, origin=origin)
        own, _ = await at.send(url, {"value": CANARY}, origin=url.partition("/answer")[0])
        await at.go_on(asked)

    assert (foreign, own) == (403, 200)
    assert at.got == [Secret(CANARY)]


async def test_the_address_is_the_one_that_people_reach(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http, public_url="https://mcp.example.org/") as at:
        assert page_of(await at.begin()).startswith("https://mcp.example.org/answer/")


async def test_behind_its_public_name_the_page_takes_what_it_sends_itself(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    name = "mcp.example.org"
    async with asking(tmp_path, http, public_url=f"https://{name}", allowed_hosts=[name]) as at:
        url = page_of(asked := await at.begin())
        here = url.replace(f"https://{name}", at.opened.url.removesuffix("/mcp"))
        status, _ = await at.send(here, {"value": CANARY}, host=name, origin=f"https://{name}")
        await at.go_on(asked)

    assert status == 200
    assert at.got == [Secret(CANARY)]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"value=" + b"x" * 5000, "application/x-www-form-urlencoded", 413),
        (b'{"value": "x"}', "application/json", 415),
        (b"value=x", "", 415),
        (b"", "application/x-www-form-urlencoded", 422),
        (b"value=", "application/x-www-form-urlencoded", 422),
        (b"other=x", "application/x-www-form-urlencoded", 422),
        (b"nonsense", "multipart/form-data", 422),
        (b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x", 422),
        (b"--x\r\ncontent-disposition: form-data; name=value\r\n\r\n", "multipart/form-data; boundary=x", 422),
    ],
)
async def test_what_is_no_answer_is_refused_and_the_page_stays(
    tmp_path: Path, http: aiohttp.ClientSession, body: bytes, kind: str, status: int
) -> None:
    async with asking(tmp_path, http, body_limit=4000) as at:
        url = page_of(asked := await at.begin())
        refused, _ = await at.send(url, body, **{"content-type": kind})
        await at.send(url, {"value": CANARY})
        await at.go_on(asked)

    assert refused == status
    assert at.got == [Secret(CANARY)]


async def test_a_wrong_answer_is_explained_and_not_shown(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http, form) as at:
        url = page_of(asked := await at.begin())
        status, page = await at.send(url, {"name": "Ana <b>", "password": "short-hunter"[:8]})
        await at.send(url, {"name": "Ana <b>", "password": CANARY})
        await at.go_on(asked)

    assert status == 422
    assert "Password" in page
    assert "at least 12" in page
    assert "short-hu" not in page
    assert at.got == [{"name": "Ana <b>", "password": Secret(CANARY)}]


# Files.


def uploaded(name: str, content: bytes, kind: str = "text/plain") -> aiohttp.FormData:
    made = aiohttp.FormData(quote_fields=False)  # browsers send names of files as they are
    made.add_field("file", content, filename=name, content_type=kind)
    return made


def kept_in(folder: Path) -> list[Path]:
    return list(folder.glob("trunkline-*"))


EVERY_BYTE = bytes(range(256)) + b"\r\n\r\n--\r\n--x\n\r" + bytes(range(255, -1, -1))


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("notes.txt", "naïve\n".encode(), "text/plain"),
        ("naïve “notes”.txt", b"x", "text/plain"),
        ("every.bin", EVERY_BYTE, "application/octet-stream"),
        ("empty.bin", b"", "application/octet-stream"),
        ("mail.eml", b"From: a\r\nSubject: b\r\n\r\nhello\r\n", "message/rfc822"),
        ("parts.eml", b"--y\r\n\r\nhello\r\n--y--\r\n", "multipart/mixed; boundary=y"),
        ("x" * 300 + ".txt", b"x", "text/plain"),
    ],
)
async def test_a_file_arrives_as_it_was_sent_where_nobody_else_reads_it(
    tmp_path: Path, http: aiohttp.ClientSession, name: str, content: bytes, kind: str
) -> None:
    modes: list[int] = []

    async def ask(elicitation: Any) -> Any:
        files = await one_file(elicitation)
        modes.extend(Path(file.path).stat().st_mode & 0o777 for file in files)  # noqa: ASYNC240 - it is small
        return files

    async with asking(tmp_path, http, ask) as at:
        url = page_of(asked := await at.begin())
        _, page = await at.get(url)
        sent, _ = await at.send(url, uploaded(name, content, kind))
        told = await at.go_on(asked)

    assert 'type="file"' in page
    assert sent == 200
    assert told.text == "hello"
    ((file,),) = at.got
    assert (file.name, file.size, file.media_type) == (name, len(content), kind.partition(";")[0])
    assert at.contents == [content]
    assert modes == [0o600]


async def test_a_file_goes_with_the_call_it_was_for(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with asking(tmp_path, http, one_file) as at:
        url = page_of(asked := await at.begin())
        await at.send(url, uploaded("notes.txt", b"x"))
        await at.go_on(asked)
        ((file,),) = at.got

        assert at.contents == [b"x"]
        assert not Path(file.path).exists()  # noqa: ASYNC240 - once


async def test_a_file_goes_with_a_call_that_nobody_goes_on_with(
    tmp_path: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with asking(tmp_path / "home", http, one_file, question_timeout=2.0) as at:
        url = page_of(await at.begin())
        sent, _ = await at.send(url, uploaded("notes.txt", b"x"))
        kept = kept_in(tmp_path)
        await until(lambda: not kept_in(tmp_path))

    assert (sent, len(kept)) == (200, 1)
    assert at.got == []


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.exe", b"x", "must be one of: .txt"),
        ("a.txt", b"x" * 10_001, "at most 10000 bytes"),
        ("", b"", "name a file"),
    ],
)
async def test_a_file_that_was_not_asked_for_is_refused_and_not_kept(
    tmp_path: Path,
    http: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    problem: str,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with asking(tmp_path / "home", http, one_file) as at:
        url = page_of(asked := await at.begin())
        status, page = await at.send(url, uploaded(name, content))
        kept = kept_in(tmp_path)
        await at.go_on(asked, answer={"action": "decline"})

    assert status == 422
    assert problem in page
    assert kept == []
    assert at.got == [()]


async def test_several_files_are_taken_where_several_are_wanted(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async def several(elicitation: Any) -> Any:
        return await elicitation.file("Which files?", multiple=True)

    both = uploaded("a.txt", b"a")
    both.add_field("file", b"b", filename="../../b.txt", content_type="text/plain")
    async with asking(tmp_path, http, several) as at:
        url = page_of(asked := await at.begin())
        await at.send(url, both)
        await at.go_on(asked)

    assert [file.name for file in at.got[0]] == ["a.txt", "b.txt"]
    assert at.contents == [b"a", b"b"]


async def test_a_users_file_wants_the_users_token_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    def with_token(token: str) -> aiohttp.FormData:
        made = uploaded("a.txt", b"a")
        made.add_field("trunkline-token", token)
        return made

    async with asking(tmp_path, http, one_file, users=USERS) as at:
        url = page_of(asked := await at.begin(USERS["ana"]))
        foreign, _ = await at.send(url, with_token(USERS["bob"]))
        own, _ = await at.send(url, with_token(USERS["ana"]))
        await at.go_on(asked, USERS["ana"])

    assert (foreign, own) == (403, 200)
    assert at.contents == [b"a"]


async def test_a_page_of_ours_may_have_the_style_that_it_has_and_no_other(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with (
        gateway(tmp_path, {}) as opened,
        http.get(opened.url.removesuffix("/mcp") + "/answer/none") as answer,
    ):
        policy, page = answer.headers["content-security-policy"], await answer.text()
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert f"style-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
