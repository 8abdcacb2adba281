"""The gateway could not listen, or should not."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import running_gateway
from tests.doctor.scene import GOOD, Machine, Page, website
from trunkline.sandbox import runtime

TOKEN = "a-long-token-of-the-house"
METADATA = "/.well-known/openid-configuration"


def test_a_port_that_is_taken_is_shown_with_who_has_it(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        machine.configure(gateway={"port": taken.getsockname()[1]}, servers={"it": GOOD})
        told = machine.doctor()

    assert told.codes == ["TL501"]
    if Path("/proc/net/tcp").exists():
        assert f"process {os.getpid()}" in told.finding("TL501")["seen"]
    assert "--port" in told.advice
    assert machine.is_well()


def test_a_store_that_does_not_answer_is_said(machine: Machine) -> None:
    machine.configure(store={"url": "postgresql://127.0.0.1:1/none"}, servers={"it": GOOD})

    assert "127.0.0.1:1/none cannot be used" in machine.doctor().finding("TL524")["seen"]


def test_a_web_server_on_the_port_is_no_trunkline(machine: Machine) -> None:
    with website({}) as origin:
        machine.configure(gateway={"port": int(origin.rpartition(":")[2])}, servers={"it": GOOD})

        assert machine.doctor().codes == ["TL501"]


@pytest.mark.parametrize("token", ["", TOKEN])
def test_a_trunkline_that_runs_already_is_told_from_another(token: str, machine: Machine) -> None:
    said: dict[str, Any] = {"token": token} if token else {}
    with running_gateway(machine.folder / "up", {"it": GOOD}, **said) as url:
        port = int(url.split(":")[2].partition("/")[0])
        machine.configure(gateway={"port": port, **said}, servers={"it": GOOD})
        same = machine.doctor()
        machine.configure(gateway={"port": port}, servers={"other": GOOD})
        other = machine.doctor()

    assert (same.code, [one["code"] for one in same.findings]) == (0, ["TL502"])
    assert (other.code, other.codes) == (1, ["TL502"])


@pytest.mark.parametrize(("isolation", "code", "failed"), [("auto", "TL531", 0), ("bubblewrap", "TL532", 1)])
def test_programs_without_bubblewrap_are_told_and_not_run_where_it_is_wanted(
    isolation: str, code: str, failed: int, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "BUBBLEWRAP", ())
    monkeypatch.setenv("TRUNKLINE_PROGRAMS_ISOLATION", isolation)
    machine.configure(gateway={"port": 0, "expose": "code"}, servers={"it": GOOD})

    told = machine.doctor()

    assert (told.code, [one["code"] for one in told.findings]) == (failed, [code])
    assert "bwrap" in told.finding(code)["seen"]


def test_a_gateway_that_everyone_could_use_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.configure(gateway={"port": 0, "host": "0.0.0.0"}, servers={"it": GOOD})

    told = machine.doctor()

    assert told.codes == ["TL503"]
    assert "TRUNKLINE_GATEWAY_TOKEN" in told.finding("TL503")["command"]
    monkeypatch.setenv("TRUNKLINE_GATEWAY_TOKEN", TOKEN)
    assert machine.is_well()


@pytest.mark.parametrize(
    "said", [{"token": "short"}, {"token": "aaaaaaaaaaaaaaaaaaaa"}, {"users": {"ana": TOKEN, "bob": TOKEN}}]
)
def test_a_token_that_is_not_safe_is_not_shown(said: dict[str, Any], machine: Machine) -> None:
    machine.configure(gateway={"port": 0, **said}, servers={"it": GOOD})

    told = machine.doctor()

    assert told.codes == ["TL504"]
    assert TOKEN not in told.text
    machine.configure(gateway={"port": 0, "token": TOKEN}, servers={"it": GOOD})
    assert machine.is_well()


def test_an_address_that_is_not_of_this_machine_is_named(machine: Machine) -> None:
    machine.configure(gateway={"port": 7499, "host": "192.0.2.1", "token": TOKEN}, servers={"it": GOOD})

    told = machine.doctor()

    assert told.codes == ["TL501"]
    assert "127.0.0.1" in told.advice


GOOD_KEYS = Page(body=json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "A" * 43, "kid": "k"}]}))


@pytest.mark.parametrize(
    ("pages", "code", "words"),
    [
        ({}, "TL521", "no metadata"),
        ({"/keys": GOOD_KEYS, METADATA: "https://other.example"}, "TL522", "calls itself 'https://other.example'"),
        ({"/keys": Page(body='{"keys": []}'), METADATA: ""}, "TL523", "no key"),
        ({"/keys": Page(body="<html>"), METADATA: ""}, "TL523", "are no keys"),
        ({"/keys": GOOD_KEYS, METADATA: ""}, "", ""),
    ],
)
def test_an_identity_provider_that_nobody_could_come_from_is_found(
    pages: dict[str, Any], code: str, words: str, machine: Machine
) -> None:
    with website(pages) as origin:
        if METADATA in pages:
            said = {"issuer": pages[METADATA] or origin, "jwks_uri": f"{origin}/keys"}
            pages[METADATA] = Page(body=json.dumps(said))
        issuers = {"corp": {"issuer": origin}}
        machine.configure(auth={"issuers": issuers}, servers={"it": GOOD})
        told = machine.doctor()

    assert told.codes == ([code] if code else [])
    assert not code or words in told.finding(code)["seen"]
