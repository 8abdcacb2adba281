"""Questions whose answers must pass neither the model nor its client: a page of our own takes them from the person."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import tempfile
from base64 import b64encode
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import HeaderParser
from email.policy import HTTP
from html import escape
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import parse_qsl

from trunkline.errors import RefusedError
from trunkline.gateway.request import Headers, Request
from trunkline.questions.answers import check_answer
from trunkline.questions.fields import FileReference, FormField
from trunkline.questions.kinds import Elicitation, FileRequest, FormRequest, sole_field

PATH = "/answer/"
MOST = 1000
"""Pages that may be open at once."""

_STYLE = (
    ":root{color-scheme:light dark}*{box-sizing:border-box}"
    "body{margin:0;padding:12vh 1.25rem 3rem;font:16px/1.5 system-ui,sans-serif;"
    "background:light-dark(#f7f7f5,#131415);color:light-dark(#1d1d1b,#e9e8e5)}"
    "main{max-width:32rem;margin:auto;overflow-wrap:anywhere}"
    "h1{margin:0 0 .75rem;font-size:1.5rem;line-height:1.25}p{margin:.5rem 0}"
    "small{color:light-dark(#62605b,#a3a29d)}a{color:light-dark(#3157c9,#93b1ff)}"
    "label{display:block;margin:1rem 0;font-weight:600}"
    "input,select{display:block;width:100%;margin-top:.25rem;padding:.45rem .65rem;font:inherit;font-weight:400;"
    "color:inherit;background:light-dark(#fff,#1b1c1e);border:1px solid light-dark(#8b8983,#7c7f86);border-radius:8px}"
    "input[type=checkbox]{display:inline;width:1.15rem;height:1.15rem;vertical-align:text-bottom}"
    "button{margin-top:.5rem;padding:.5rem 1.2rem;border:0;border-radius:8px;font:inherit;font-weight:500;"
    "color:light-dark(#fff,#10131c);background:light-dark(#3157c9,#93b1ff);cursor:pointer}"
    "[role=alert]{padding:.7rem .9rem;border-radius:8px;"
    "color:light-dark(#b3261e,#ff9a91);background:light-dark(#fcebe9,#3b1c1a)}"
    ":focus-visible{outline:2px solid light-dark(#3157c9,#93b1ff);outline-offset:2px}"
)
"""As the console looks, in the colours of the system."""
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PAGE: Headers = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # By `no-referrer` a browser sends our own forms as from nowhere (`Origin: null`).
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", _POLICY.encode()),
]


@dataclass(slots=True)
class _Open:
    request: Elicitation
    user: str
    ended: ExitStack
    answer: asyncio.Future[Any]


class AnswerPages:
    """Open questions by the secret part of their address; each is answered once, by the person it was meant for."""

    def __init__(self, base: str, whose: Callable[[str], Awaitable[str | None]] | None) -> None:
        self._base, self._whose = base, whose
        self._open: dict[str, _Open] = {}

    def ask(self, request: Elicitation, user: str, ended: ExitStack) -> tuple[str, asyncio.Future[Any]]:
        """An address for one question, and the answer to come; cancel that to close the page.

        Files that were sent are deleted with the stack.
        """
        if len(self._open) >= MOST:
            raise RefusedError("Too many questions are open.", status=503)
        key = secrets.token_urlsafe(32)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._open.pop(key, None))
        self._open[key] = _Open(request, user, ended, answer)
        return f"{self._base}{PATH}{key}", answer

    async def __call__(self, request: Request) -> None:
        """Show the page, or take what it sends."""
        found = self._open.get(request.path.removeprefix(PATH))
        if found is None or found.answer.done():
            request.answer(404, page_of("Gone", "<p>This question was answered, or its time is up.</p>"), PAGE)
        elif request.method == "GET":
            request.answer(200, self._form(found), PAGE)
        elif request.method == "POST":
            await self._take(request, found)
        else:
            raise RefusedError(f"There is nothing to {request.method} here.", status=405)

    async def _take(self, request: Request, found: _Open) -> None:
        fields, files = _sent(request)
        token = fields.get("trunkline-token", [""])[0]
        if found.user and (self._whose is None or await self._whose(token) != found.user):
            request.answer(403, self._form(found, "This question is for somebody else, or the token is wrong."), PAGE)
            return
        if found.answer.done():
            raise RefusedError("This question was answered already.", status=409)
        checked = check_answer(found.request, _value(found.request, fields, files))
        if checked.problems:
            request.answer(422, self._form(found, " ".join(checked.problems)), PAGE)
            return
        value = checked.value
        if isinstance(found.request, FileRequest):
            value = tuple(_kept(file, found.ended) for file in files)
        found.answer.set_result(value)
        request.answer(200, page_of("Thank you", "<p>You can close this page.</p>"), PAGE)

    def _form(self, found: _Open, problem: str = "") -> bytes:
        asked = found.request
        who = f"{asked.tool_name} of {asked.server_id}" if asked.server_id else asked.tool_name
        rows = "".join(_row(field) for field in _fields(asked))
        if isinstance(asked, FileRequest):
            more = (" multiple" if asked.multiple else "") + ("" if asked.optional else " required")
            rows = f'<input type="file" name="file" aria-label="File" accept="{escape(",".join(asked.accept))}"{more}>'
        if found.user:
            rows += _row(FormField("trunkline-token", "Your Trunkline token", "password", required=True))
        kind = ' enctype="multipart/form-data"' if isinstance(asked, FileRequest) else ""
        said = f'<p role="alert">{escape(problem)}</p>' if problem else ""
        body = (
            f"<p>{escape(asked.message)}</p><p><small>Asked by {escape(who)}</small></p>{said}"
            f'<form method="post" autocomplete="off"{kind}>{rows}<button>Send</button></form>'
        )
        return page_of("A question", body)


def _fields(request: Elicitation) -> tuple[FormField, ...]:
    if isinstance(request, FormRequest):
        return request.fields
    sole = sole_field(request)
    return (sole,) if sole is not None else ()


def _row(field: FormField) -> str:
    name, title = escape(field.name), escape(field.title or "Answer")
    needed = " required" if field.required and field.type != "boolean" else ""
    if field.type in ("select", "multiselect"):
        many = " multiple" if field.type == "multiselect" else ""
        options = "".join(
            f'<option value="{escape(one.value)}"{" disabled" if one.disabled else ""}>{escape(one.title)}</option>'
            for one in field.options
        )
        control = f'<select name="{name}"{many}{needed}>{options}</select>'
    else:
        kind = {"number": "number", "integer": "number", "boolean": "checkbox", "date": "date", "password": "password"}
        step = ' step="any"' if field.type == "number" else ""
        control = f'<input type="{kind.get(field.type, "text")}" name="{name}"{step}{needed}>'
    return f"<label>{title} {control}</label>"


def page_of(title: str, body: str) -> bytes:
    """A whole page; the body is HTML."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<main><h1>{title}</h1>{body}</main></html>"
    ).encode()


_Fields = dict[str, list[str]]
_File = tuple[str, str, bytes]


def _sent(request: Request) -> tuple[_Fields, list[_File]]:
    """What a form sent: the fields, and the files with their names and types."""
    kind = request.headers.get(b"content-type", b"").decode("latin-1")
    fields: _Fields = {}
    files: list[_File] = []
    if kind.startswith("application/x-www-form-urlencoded"):
        for name, value in parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True):
            fields.setdefault(name, []).append(value)
        return fields, files
    if not kind.startswith("multipart/form-data"):
        raise RefusedError("A form is sent here.", status=415)
    for head, data in _parts(kind, request.body):
        filename = head.get_filename()
        if filename is None:
            name = str(head.get_param("name", "", "content-disposition"))
            fields.setdefault(name, []).append(data.decode("utf-8", "replace"))
        elif filename:  # a file that was not chosen is sent without a name
            files.append((PurePath(filename).name, head.get_content_type(), data))
    return fields, files


def _parts(kind: str, body: bytes) -> Generator[tuple[EmailMessage, bytes]]:
    """The parts of a form; what is in them is left alone, even if it is mail itself."""
    boundary = str(_head(f"content-type: {kind}").get_param("boundary", ""))
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.encode())[1:]:
        if not boundary or part.startswith(b"--"):
            return
        head, _, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        yield _head(head.decode("utf-8", "replace")), data


def _head(text: str) -> EmailMessage:
    return HeaderParser(policy=HTTP).parsestr(text)


def _value(request: Elicitation, fields: _Fields, files: list[_File]) -> Any:
    """What was sent, in the form that the question's kind has."""
    if isinstance(request, FileRequest):
        return tuple(FileReference(name, size=len(data), media_type=kind) for name, kind, data in files) or None
    given = {field.name: _read(field, fields.get(field.name, [])) for field in _fields(request)}
    return given if isinstance(request, FormRequest) else next(iter(given.values()), None)


def _read(field: FormField, sent: list[str]) -> Any:
    match field.type:
        case "boolean":
            return bool(sent)
        case "multiselect":
            return sent
        case "number" | "integer":
            try:
                return (int if field.type == "integer" else float)(sent[0]) if sent and sent[0] else None
            except ValueError:
                return sent[0]
        case _:
            return sent[0] if sent and sent[0] else None


def _kept(file: _File, ended: ExitStack) -> FileReference:
    """A file that was sent, kept where its owner alone can read it."""
    name, kind, data = file
    suffix = PurePath(name).suffix
    handle, path = tempfile.mkstemp(prefix="trunkline-", suffix=suffix if re.fullmatch(r"\.\w{1,16}", suffix) else "")
    ended.callback(Path(path).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as kept:
        kept.write(data)
    return FileReference(name, path, size=len(data), media_type=kind)
