"""Servers work, but what they offer cannot all be used."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.doctor.scene import GOOD, Machine
from tests.harness import faulty

SERVER = """
import json, sys
tools = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    known = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}},
             "tools/list": {"tools": tools}}
    if message["method"] in known:
        answer = {"result": known[message["method"]]}
    else:
        answer = {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


def offering(*tools: dict[str, Any]) -> dict[str, Any]:
    """A server with these tools."""
    return {"command": sys.executable, "args": ["-S", "-c", SERVER, json.dumps(tools)]}


def tool(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", **schema}}


def test_a_list_that_does_not_end_is_shown_beside_a_server_that_works(machine: Machine) -> None:
    machine.configure(faulty("--list", "endless", max_pages=5))

    told = machine.doctor()

    assert told.codes == ["TL403"]
    assert told.servers["it"].startswith("works")
    machine.configure(GOOD)
    assert machine.is_well()


@pytest.mark.parametrize("fault", ["error", "hang"])
def test_a_list_that_cannot_be_read_is_named(fault: str, machine: Machine) -> None:
    machine.configure(faulty("--list", fault, timeout=0.5))

    told = machine.doctor()

    assert told.codes == ["TL402"]
    assert "tools" in told.finding("TL402")["seen"]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"name": "t"}, "no `inputSchema`"),
        ({"name": "t", "inputSchema": []}, "no object"),
        ({"name": "t", "inputSchema": {"type": "string"}}, "not of the type object"),
        (tool("t", properties={"a": {"type": "nonsense"}}), "not valid"),
    ],
)
def test_a_schema_that_cannot_be_used_is_named_with_its_tool(
    broken: dict[str, Any], reason: str, machine: Machine
) -> None:
    machine.configure(offering(tool("fine"), broken))

    told = machine.doctor()

    assert told.codes == ["TL405"]
    assert told.finding("TL405")["seen"].startswith("t: ")
    assert reason in told.finding("TL405")["seen"]
    machine.configure(offering(tool("fine")))
    assert machine.is_well()


def test_names_that_hide_each_other_are_shown_and_told_apart(machine: Machine) -> None:
    servers = {"a": offering(tool("read"), tool("only")), "b": offering(tool("read"))}
    machine.configure(gateway={"port": 0, "namespace": "never", "conflicts": "first-wins"}, servers=servers)

    told = machine.doctor()

    assert told.codes == ["TL404"]
    assert "'read' is a's; hidden: b." in told.finding("TL404")["seen"]
    machine.configure(gateway={"port": 0, "namespace": "always"}, servers=servers)
    assert machine.is_well()


def test_another_clients_server_of_the_same_name_is_good_to_know(machine: Machine) -> None:
    machine.configure(servers={"it": GOOD, "same": GOOD})
    cursor = machine.folder / ".cursor" / "mcp.json"
    cursor.parent.mkdir()
    cursor.write_text(json.dumps({"mcpServers": {"it": {"command": "other"}, "same": GOOD, "more": {"command": "x"}}}))

    told = machine.doctor()

    assert (told.code, [one["code"] for one in told.findings]) == (0, ["TL406"])
    assert told.finding("TL406")["server"] == "it"
