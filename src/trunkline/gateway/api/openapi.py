"""The description of the admin API, for programs that make clients of it: written from the routes themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from trunkline import errors
from trunkline.errors import TrunklineError
from trunkline.gateway.api.routes import HIGHEST_LIMIT, LONGEST_PAGE, PAGE, PATH, Ask, Given, Route, code_of
from trunkline.telemetry.record import OUTCOMES
from trunkline.telemetry.series import RANGES
from trunkline.version import __version__

QUERY: dict[str, dict[str, Any]] = {
    "cursor": {"description": "Where the page begins: what the page before gave as `cursor`."},
    "limit": {
        "description": f"How many there may be in a page; of more than {LONGEST_PAGE}, so many are given.",
        "schema": {"type": "integer", "minimum": 1, "maximum": HIGHEST_LIMIT, "default": PAGE},
    },
    "user": {"description": "Whose; default is who asks. Others' are for admins."},
    "scope": {
        "description": "Everybody's (`app`), or a user's own (`user`); default is `app` for admins.",
        "schema": {"type": "string", "enum": ["app", "user"]},
    },
    "q": {"description": "What the tools are to be for: those that fit best come first."},
    "strategy": {
        "description": "How to search; default is what the configuration says.",
        "schema": {"type": "string", "enum": ["regex", "bm25", "semantic", "hybrid"]},
    },
    "thread": {"description": "The thread in which they are wanted."},
    "server": {"description": "Those of one server alone."},
    "tool": {"description": "Those of one tool, by its server's name for it or the one that callers see."},
    "outcome": {
        "description": "Those that ended so, or run.",
        "schema": {"type": "string", "enum": ["running", *OUTCOMES]},
    },
    "program": {"description": "Those of a program, by its id.", "schema": {"type": "string"}},
    "longer": {"description": "Those that took at least so many seconds.", "schema": {"type": "number", "minimum": 0}},
    "since": {"description": "From when on, in seconds since 1970.", "schema": {"type": "number", "minimum": 0}},
    "range": {"description": "How far back.", "schema": {"type": "string", "enum": [*RANGES], "default": "1h"}},
    "by": {
        "description": "What is summed up.",
        "schema": {"type": "string", "enum": ["user", "server", "tool", "thread"], "default": "user"},
    },
    "kind": {"description": "Lines about one thing alone, such as `call`, `change`, `refusal`, `sign-in`, `process`."},
    "lines": {
        "description": "How many lines, the newest.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 5000, "default": 200},
    },
    "attempt": {"description": "The sign-in, as it was called when it was begun."},
}
"""What may follow the `?`, on whichever route."""

REFUSALS = {
    400: "What was sent cannot be read.",
    401: "A key is wanted, or is not one, or no longer.",
    403: "This key may not do it.",
    404: "It is not there, or is somebody else's.",
    409: "Something stands in the way: a name that is another's.",
    412: "Somebody else changed it first; look, and try again.",
    415: "A body is sent as application/json.",
    422: "What was sent does not fit.",
    429: "A limit is reached; `Retry-After` says when there is more.",
    502: "The server failed.",
    503: "The store is away; try again.",
    504: "It took too long.",
}


def route(routes: list[Route]) -> Route:
    """Where the description of all `routes`, and of itself, is read; no key is wanted for it."""

    async def run(ask: Ask) -> Given:
        return Given(description([*routes, own]))

    own = Route("GET", "openapi.json", "This description", run, gives=dict[str, Any], public="to all")
    return own


def description(routes: list[Route]) -> dict[str, Any]:
    """The routes as an OpenAPI document."""
    types = list(dict.fromkeys(kind for one in routes for kind in (one.body, one.gives) if kind is not None))
    found, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    refs = dict(zip(types, found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in routes:
        paths.setdefault(PATH + one.path, {})[one.method.lower()] = _operation(one, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Trunkline",
            "version": __version__,
            "description": "What can be seen and changed of a running gateway. MCP itself is at /mcp.",
        },
        "paths": paths,
        "security": [{"key": []}],
        "components": {
            "schemas": {**schemas, "Error": _error()},
            "responses": {str(status): _refusal(status, words) for status, words in REFUSALS.items()},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of `trunkline key create`."}
            },
        },
    }


def _operation(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    names = [part[1:-1] for part in route.parts if part.startswith("{")]
    made: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.parts[0]],
        "parameters": [
            *(_parameter("path", name, {"required": True}) for name in names),
            *(_parameter("query", name, QUERY[name]) for name in route.query),
            *([_parameter("header", "If-Match", {"description": _IF_MATCH})] if route.versioned else []),
        ],
        "responses": {
            **{str(status): _answer(route, refs) for status in (route.status, route.or_status) if status},
            **_refusals(route, names),
        },
    }
    if route.body is not None:
        made["requestBody"] = {"required": True, "content": _json(refs[route.body])}
    if route.public:
        made["security"] = []
    return made


_IF_MATCH = "The `ETag` of what you saw: if somebody changed it since, nothing is changed, and the answer is 412."


def _operation_id(route: Route) -> str:
    """Such as `delete_users_name`: a name for the method in a client that is made from this."""
    return "_".join([route.method, *(part.strip("{}").replace(".", "_") for part in route.parts)]).lower()


def _parameter(place: str, name: str, said: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}, **said}


def _answer(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": route.summary}
    if route.gives is None:
        return answer
    schema: dict[str, Any] = refs[route.gives]
    if route.pages:
        properties: dict[str, Any] = {route.pages: {"type": "array", "items": schema}}
        if "cursor" in route.query:
            properties["cursor"] = {"type": "string", "description": "Where the next page begins, if there is one."}
        schema = {"type": "object", "properties": properties, "required": [route.pages]}
    elif "version" in _properties(route.gives):
        answer["headers"] = {"ETag": {"description": "Its version, for `If-Match`.", "schema": {"type": "string"}}}
    return {**answer, "content": {"text/event-stream": {"schema": schema}} if route.streams else _json(schema)}


def _properties(kind: Any) -> dict[str, Any]:
    return getattr(kind, "__annotations__", {})


def _refusals(route: Route, names: list[str]) -> dict[str, Any]:
    fields = route.body.__struct_fields__ if route.body is not None else ()
    expected = {400, *route.refuses}
    expected |= {401, 503} if route.public != "to all" else set()
    expected |= {403} if not route.public else set()
    expected |= {404} if names or "user" in (*route.query, *fields) else set()
    expected |= {429} if route.streams else set()
    expected |= {415} if route.body is not None else set()
    expected |= {422} if route.body is not None or route.query else set()
    expected |= {412} if route.versioned else set()
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(expected)}


def _refusal(status: int, words: str) -> dict[str, Any]:
    retry = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return {
        "description": words,
        "content": _json({"$ref": "#/components/schemas/Error"}),
        **({"headers": retry} if status in (429, 503) else {}),
    }


def _error() -> dict[str, Any]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TrunklineError)]
    told = {
        "code": {"enum": sorted(code_of(kind) for kind in kinds), "description": "What programs know it by."},
        "message": {"type": "string", "description": "What happened, for people."},
        "hint": {"type": "string", "description": "What to do next."},
    }
    inner = {"type": "object", "properties": told, "required": ["code", "message"]}
    return {"type": "object", "properties": {"error": inner}, "required": ["error"]}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
