"""Requests that schemathesis makes from the description of the admin API, and who sends them."""

# schemathesis' types are generic in what it does not name.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from trunkline.gateway.api.routes import PATH

Json = dict[str, Any]
Case = Any

HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

EXAMPLES = 3
"""Requests that fit, and as many that do not, to each operation; each is sent by every caller."""

LEFT_OUT = {"get_events": "it does not end"}
"""What is asked elsewhere. What would start something is refused without `allow_commands`, and registries, clients'
files and sign-ins are asked where none is to be reached."""

CHECKS: list[CheckFunction] = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]

# A server that fails is one that was called, and an `If-Match` of another version is looked at before the rest.
EXPECTED = {
    "not_a_server_error": {"expected-statuses": ["2xx", "4xx", 502]},
    "negative_data_rejection": {"expected-statuses": [400, 401, 403, 404, 412, 415, 422]},
}
CONFIG = SchemathesisConfig.from_dict({"checks": EXPECTED})

KNOWN: dict[str, list[str]] = {
    "users": ["ana", "zoe"],
    "servers": ["hers", "one", "everybodys"],
    "tools": ["one__read_note", "hers__read_note", "two__delete_note"],
    "threads": ["t1"],
    "review": ["hers", "one"],
    "connections": ["hers", "everybodys"],
    "registry": ["github", "filesystem"],
    "clients": ["cursor"],
}
"""Names of what there is, by the first word of a path."""


ALL = {"admin": 200, "owner": 200, "another": 200}
NEW = dict.fromkeys(ALL, 201)
MADE: list[tuple[str, str, Json, Json]] = [
    ("POST /users", "", {"name": "made", "role": "reader", "limits": {"calls_per_hour": 5}}, {"admin": 201}),
    ("PATCH /users/{name}", "made", {"role": "member"}, {"admin": 200}),
    ("POST /keys", "", {"user": "ana", "expires": "1d", "read_only": True}, {"admin": 201, "owner": 201}),
    ("POST /servers", "", {"name": "made-by-WHO", "url": "http://127.0.0.1:1/mcp"}, NEW),
    ("POST /servers", "", {"name": "made-by-WHO", "url": "http://127.0.0.1:1/mcp", "scope": "app"}, NEW),
    ("PATCH /servers/{name}", "made-by-WHO", {"description": "made"}, ALL),
    ("PUT /threads/{id}", "made", {"servers": ["one"], "tools": ["*"]}, NEW),
    ("POST /threads/{id}/clone", "made", {"id": "again"}, NEW),
    ("POST /tools/{name}/call", "one__read_note", {}, ALL),
]
"""Requests that make, change and call something, in this order; and for whom such do so, with which status."""


@dataclass(frozen=True)
class Answer:
    """What came back for one request."""

    operation: str
    status: int
    text: str


class Sender:
    """Sends requests with one key, and keeps what was answered, and what was not as described."""

    def __init__(self, base: str, key: str) -> None:
        self._base, self._session = base, requests.Session()
        self._session.trust_env = False
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self.problems: dict[str, str] = {}
        self.answers: list[Answer] = []

    def send(self, case: Case) -> None:
        operation = case.operation.label
        response = case.call(self._base, self._session, self._headers, timeout=60)
        self.answers.append(Answer(operation, response.status_code, response.text))
        try:
            case.validate_response(response, checks=CHECKS, headers=self._headers)
        except FailureGroup as group:
            for one in group.exceptions:
                self.problems.setdefault(f"{operation}: {one}", case.as_curl_command())

    def watch(self) -> tuple[int, str, str]:
        """The status and the kind of the stream of events, and its first line."""
        with self._session.get(f"{self._base}{PATH}events", headers=self._headers, stream=True, timeout=60) as answer:
            first = next(answer.iter_lines()).decode() if answer.status_code == 200 else ""
            return answer.status_code, answer.headers["content-type"], first

    def close(self) -> None:
        self._session.close()

    def statuses(self) -> dict[str, set[int]]:
        """What each operation answered with."""
        found: dict[str, set[int]] = {}
        for one in self.answers:
            found.setdefault(one.operation, set()).add(one.status)
        return found


def send_all(told: Json, senders: Mapping[str, Sender]) -> dict[str, Json]:
    """What makes something, then requests to every operation, to those that take something away last."""
    schema: Any = schemathesis.openapi.from_dict(told, config=CONFIG)
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]
    made = _make(operations, senders)
    _send_to_each(operations, senders.values())
    return made


def _make(operations: list[Any], senders: Mapping[str, Sender]) -> dict[str, Json]:
    """Who could make what: the statuses of those who could, by what they sent."""
    known = {one.label.replace(PATH, "/"): one for one in operations}
    made: dict[str, Json] = {}
    for label, name, body, _ in MADE:
        for who, sender in senders.items():
            names = {part[1:-1]: name.replace("WHO", who) for part in label.split("/") if part.startswith("{")}
            own = json.loads(json.dumps(body).replace("WHO", who))
            sender.send(known[label].Case(path_parameters=names, body=own, media_type="application/json"))
            status = sender.answers[-1].status
            if status < 400:
                made.setdefault(label, {})[who] = status
    return made


def _send_to_each(operations: list[Any], senders: Collection[Sender]) -> None:
    for operation in sorted(operations, key=lambda one: one.method == "delete"):
        raw: Json = operation.definition.raw
        if raw["operationId"] in LEFT_OUT:
            continue
        _send_some(st.composite(_fitting)(operation), senders)
        if "requestBody" in raw or any(one["in"] == "query" for one in raw["parameters"]):
            _send_some(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE), senders)


def _send_some(cases: st.SearchStrategy[Case], senders: Collection[Sender]) -> None:
    @settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=HEALTH)
    @given(case=cases)
    def send(case: Case) -> None:
        for sender in senders:
            sender.send(case)

    send()


def _fitting(draw: st.DrawFn, operation: Any) -> Case:
    """A request as described, mostly to what there is."""
    case: Case = draw(operation.as_strategy())
    noun = operation.path.removeprefix(PATH).split("/")[0]
    known = ["zoe"] if noun == "users" and operation.method != "get" else KNOWN.get(noun, ["x"])
    if draw(st.integers(0, 3)):
        case.path_parameters = {name: draw(st.sampled_from(known)) for name in case.path_parameters}
    for sent in (case.query, case.body):
        if isinstance(sent, dict) and "user" in sent:
            sent["user"] = draw(st.sampled_from(["ana", "bob", "zoe", "nobody"]))
    return case
