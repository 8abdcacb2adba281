"""The configuration is missing, broken, or says what cannot be."""

from __future__ import annotations

import json
import stat
from typing import Any

import pytest

from tests.doctor.scene import GOOD, Machine
from trunkline.cli.main import main


def test_without_a_configuration_the_doctor_says_how_to_begin(machine: Machine) -> None:
    told = machine.doctor()

    assert (told.code, told.codes) == (1, ["TL101"])
    assert told.finding("TL101")["command"].startswith("trunkline add ")
    assert main(["add", "it", GOOD["command"], *GOOD["args"]]) == 0
    machine.capture.readouterr()
    assert machine.is_well()


def test_a_file_that_is_named_and_not_there_is_named(machine: Machine) -> None:
    told = machine.doctor("--config", "elsewhere.toml")

    assert told.codes == ["TL101"]
    assert "elsewhere.toml" in told.finding("TL101")["seen"]


def test_a_file_without_servers_is_a_beginning(machine: Machine) -> None:
    machine.configure()

    assert machine.doctor().codes == ["TL101"]


@pytest.mark.parametrize(
    ("text", "place", "cause"),
    [
        ('[servers.it]\ncommand = “python”\n', "line 2, column 11", "typographic quotes"),
        ('[servers]\nit = { command = "a", args = ["b"], }\n', "line 2", "trailing comma"),
        ("[servers.it]\ncommand = python\n", "line 2, column 11", "without quotes"),
        ('[servers.it]\ncommand: "python"\n', "line 2", "a colon"),
        ('[servers.it]\ncommand = "a"\n[servers.it]\ncommand = "b"\n', "line 3", "there twice"),
        ('[servers.it]\ncommand = "C:\\Users\\x"\n', "line 2", "backslash"),
        ('[servers.it\ncommand = "a"\n', "line 1", ""),
        ('{"mcpServers": {}}\n', "line 1", "it is JSON"),
        ('<<<<<<< HEAD\n[servers]\n', "line 1", "a conflict of a merge"),
        ('\ufeff[servers]\n', "line 1", "byte order mark"),
    ],
)  # fmt: skip
def test_broken_toml_is_shown_with_its_place_and_likely_cause(
    text: str, place: str, cause: str, machine: Machine
) -> None:
    machine.file.write_text(text, encoding="utf-8")

    told = machine.doctor()

    assert (told.code, told.codes) == (1, ["TL102"])
    assert place in told.finding("TL102")["seen"]
    assert cause in told.advice
    machine.configure(GOOD)
    assert machine.is_well()


@pytest.mark.parametrize(
    ("text", "place", "cause"),
    [
        ('{"mcpServers": {"it": {“command”: "a"}}}', "line 1", "typographic quotes"),
        ('{\n  // mine\n  mcpServers: {}\n}', "line 3, column 3", "a key without quotes"),
        ('{\n  /* mine,\n  all */ mcpServers: {}\n}', "line 3, column 10", "a key without quotes"),
        ("{'mcpServers': {}}", "line 1, column 2", "single quotes"),
        ('{"mcpServers": {"a": {}\n  "b": {}}}', "line 2, column 3", "a comma is missing"),
        ('{"mcpServers": {"a": {"args": ["x",, "y"]}}}', "line 1, column 36", "a comma too many"),
        ('{"mcpServers": {"a": {"command": python}}}', "line 1, column 34", "a text without quotes"),
        ('{"mcpServers": {"a": {"command": "C:\\Users"}}}', "line 1", "a backslash"),
        ('{"mcpServers": {', "line 1", "not closed"),
        ("", "line 1", "the file is empty"),
        ('[servers.a]\ncommand = "x"\n', "line 1", "it is TOML"),
    ],
)  # fmt: skip
def test_broken_json_is_shown_with_its_place_and_likely_cause(
    text: str, place: str, cause: str, machine: Machine
) -> None:
    file = machine.folder / "mcp.json"
    file.write_text(text, encoding="utf-8")

    told = machine.doctor("--config", str(file))

    assert (told.code, told.codes) == (1, ["TL102"])
    assert place in told.finding("TL102")["seen"]
    assert cause in told.advice


def test_comments_and_trailing_commas_in_json_are_no_fault(machine: Machine) -> None:
    file = machine.folder / "mcp.json"
    file.write_text(f'{{ // mine\n "mcpServers": {{"it": {json.dumps(GOOD)},}},\n}}')

    assert machine.doctor("--config", str(file)).codes == []


def test_an_unknown_option_is_corrected(machine: Machine) -> None:
    machine.configure({**GOOD, "comand": "x"})

    told = machine.doctor()

    assert told.codes == ["TL103"]
    assert told.finding("TL103")["server"] == "it"
    assert "Did you mean 'command'?" in told.advice
    machine.configure(GOOD)
    assert machine.is_well()


def test_a_server_without_an_address_is_named(machine: Machine) -> None:
    machine.configure({"args": ["x"]})

    told = machine.doctor()

    assert told.codes == ["TL104"]
    assert "Give it a `command` or a `url`" in told.advice
    machine.configure({**GOOD})
    assert machine.is_well()


@pytest.mark.parametrize("wrong", [{"args": "one"}, {"timeout": -1}, {"transport": "carrier-pigeon"}])
def test_a_value_that_cannot_be_is_named(wrong: dict[str, Any], machine: Machine) -> None:
    machine.configure({**GOOD, **wrong})

    told = machine.doctor()

    assert told.codes == ["TL105"]
    assert next(iter(wrong)) in told.finding("TL105")["seen"]


def test_one_broken_server_does_not_hide_the_others(machine: Machine) -> None:
    machine.configure(
        servers={"a": {"comand": "x"}, "b": {}, "c": faulty_exit(), "d": GOOD},
        groups={"both": {"servers": ["a", "d"]}},
        profiles={"view": {"servers": ["both"]}},
        nonsense={"x": 1},
    )

    told = machine.doctor()

    assert sorted(told.codes) == ["TL103", "TL103", "TL104", "TL206"]
    assert told.servers["d"].startswith("works")


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_in_a_clients_file_its_own_keys_are_no_fault(key: str, machine: Machine) -> None:
    file = machine.folder / "mcp.json"
    servers: dict[str, Any] = {"it": {**GOOD, "type": "stdio", "autoApprove": ["x"]}, "empty": {"autoApprove": []}}
    file.write_text(json.dumps({key: servers, "inputs": [], "theme": "dark"}))

    told = machine.doctor("--config", str(file))

    assert told.codes == ["TL104"]
    assert told.finding("TL104")["server"] == "empty"
    assert told.servers["it"].startswith("works")


def faulty_exit() -> dict[str, Any]:
    return {**GOOD, "args": [*GOOD["args"], "--start", "exit"]}


def test_a_variable_that_is_not_set_is_named_and_set(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IT_TOKEN", raising=False)
    machine.configure({**GOOD, "env": {"TOKEN": "${env:IT_TOKEN}"}})

    told = machine.doctor()

    assert told.codes == ["TL106"]
    assert "export IT_TOKEN=" in told.advice
    monkeypatch.setenv("IT_TOKEN", "a-real-one")
    assert machine.is_well()


def test_a_variable_of_the_gateway_is_named_as_well(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOOR", raising=False)
    machine.configure(gateway={"port": 0, "token": "${env:DOOR}"}, servers={"it": GOOD})

    told = machine.doctor()

    assert told.codes == ["TL106"]
    assert told.servers["it"].startswith("works")


@pytest.mark.parametrize(
    "value", ["YOUR_API_KEY", "<token>", "sk-xxxxxxxx", "changeme", "Bearer YOUR-TOKEN-HERE", "your_key_here", "..."]
)
def test_a_placeholder_is_found_by_its_name_and_not_shown(value: str, machine: Machine) -> None:
    machine.configure({**GOOD, "env": {"API_KEY": value}})

    told = machine.doctor()

    assert told.codes == ["TL107"]
    assert "API_KEY" in told.finding("TL107")["seen"]
    assert value not in told.finding("TL107")["seen"]
    machine.configure({**GOOD, "env": {"API_KEY": "f3a9c2e17b"}})
    assert machine.is_well()


@pytest.mark.parametrize("value", ["production", "sk-4f9a8b7c", "your", "https://example.org/x", "en-US", "x"])
def test_what_may_be_meant_is_no_placeholder(value: str, machine: Machine) -> None:
    machine.configure({**GOOD, "env": {"API_KEY": value}})

    assert machine.is_well()


def test_a_file_in_another_encoding_is_named(machine: Machine) -> None:
    machine.file.write_bytes(b'[servers.it]\ncommand = "caf\xe9"\n')

    told = machine.doctor()

    assert told.codes == ["TL108"]
    assert "UTF-8" in told.advice


def test_a_name_that_is_no_servers_is_wrong_use(machine: Machine) -> None:
    machine.configure(GOOD)

    told = machine.doctor("that")

    assert told.code == 2
    assert "There are: it." in told.text


def test_only_the_servers_that_are_named_are_examined(machine: Machine) -> None:
    machine.configure(servers={"a": GOOD, "b": {"command": "no-such-program"}, "c": {}})

    assert machine.doctor("a").codes == []
    assert machine.doctor("b").codes == ["TL202"]
    assert machine.doctor("c").codes == ["TL104"]


def test_a_server_that_is_switched_off_is_left_alone(machine: Machine) -> None:
    machine.configure(servers={"a": GOOD, "b": {"command": "no-such-program", "enabled": False}})

    told = machine.doctor()

    assert told.codes == []
    assert told.servers["b"] == "is switched off"


def test_the_doctor_changes_nothing_unless_told(machine: Machine) -> None:
    machine.configure({"command": "no-such-program"})
    before = machine.file.read_bytes(), stat.S_IMODE(machine.file.stat().st_mode)

    machine.doctor()

    assert (machine.file.read_bytes(), stat.S_IMODE(machine.file.stat().st_mode)) == before
    assert not machine.home.exists()
