"""Resources that an answer pointed to and no list shows: remembered with who said it, so that they can be read."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from trunkline.identity import Scope
from trunkline.model import Entry, Snapshot
from trunkline.untrusted import as_list, as_object
from trunkline.wire.members import decode_bounded

MOST_SCOPES = 1000
MOST_LINKS = 500
"""Links that are remembered for each scope; the oldest are forgotten."""
LONGEST = 4096


class Links:
    """Who said which link to whom. A link leads to the server that said it, and to no other."""

    def __init__(self) -> None:
        self._said: OrderedDict[Scope, OrderedDict[str, tuple[str, str]]] = OrderedDict()

    def remember(self, scope: Scope, unit: str, server: str, result: bytes) -> None:
        """Take note of the links in an answer: `unit` is what is shown as one server, `server` who answered."""
        if b'"resource_link"' not in result and b'"resource"' not in result:
            return
        links = _links(decode_bounded(result))
        if not links:
            return
        said = self._said.setdefault(scope, OrderedDict())
        self._said.move_to_end(scope)
        if len(self._said) > MOST_SCOPES:
            self._said.popitem(last=False)
        for uri in links:
            said[uri] = unit, server
            said.move_to_end(uri)
        while len(said) > MOST_LINKS:
            said.popitem(last=False)

    def find(self, scope: Scope, uri: str, snapshot: Snapshot) -> Entry | None:
        """What a link that was said to this scope leads to, if its server is still there for it."""
        said = self._said.get(scope)
        unit, server = said.get(uri, ("", "")) if said is not None else ("", "")
        if not server or server not in snapshot.servers:
            return None
        return Entry(uri, unit, uri, b"", members=() if unit == server else (server,))

    def forget_user(self, user: str) -> None:
        """Somebody is gone."""
        for scope in [scope for scope in self._said if scope.user == user]:
            del self._said[scope]


def _links(result: dict[str, Any]) -> list[str]:
    """The addresses in the contents of a tool's answer, of a prompt's messages, and of links in a resource."""
    messages: list[Any] = [*as_list(result.get("content")), *as_list(result.get("contents"))]
    messages += [one.get("content") for one in map(as_object, as_list(result.get("messages")))]
    blocks = [block for one in messages for block in (as_list(one) or [one])]
    found: list[str] = []
    for block in map(as_object, blocks):
        if block.get("type") == "resource_link":
            found.append(str(block.get("uri", "")))
        elif block.get("type") == "resource":
            found.append(str(as_object(block.get("resource")).get("uri", "")))
    return [uri for uri in found if 0 < len(uri) <= LONGEST]
