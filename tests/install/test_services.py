"""Servers that a discovery endpoint offers: looked at, and registered when somebody says so."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import aiohttp
import pytest

from tests.cli.inside import Inside
from tests.harness import gateway
from tests.tenancy.test_access import notes
from tests.tenancy.test_people import Admin
from trunkline.config.tenancy import DiscoverySection
from trunkline.errors import ConfigError, NotFoundError, ProtocolError, RefusedError, UnreachableError
from trunkline.install.services import LARGEST_ANSWER, fetch, read_services

Json = dict[str, Any]
NOWHERE = "http://127.0.0.1:9/mcp"


class Endpoint:
    """What it answers, and what it was asked."""

    def __init__(self) -> None:
        self.services: Any = []
        self.status, self.body, self.url = 200, b"", ""
        self.asked: list[Json] = []

    def service(self, id: str, url: str = NOWHERE, **rest: Any) -> Json:
        return {"service_type": "MCP_SERVICE", "id": id, "name": id.title(), "connection": {"url": url}, **rest}


@contextmanager
def serving() -> Generator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            endpoint.asked.append({name.lower(): value for name, value in self.headers.items()})
            body = endpoint.body or json.dumps(endpoint.services).encode()
            self.send_response(endpoint.status)
            if endpoint.status == 302:
                self.send_header("location", endpoint.url)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}/services"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


async def test_what_is_offered_is_registered_once_when_an_admin_says_so_and_never_unasked(
    tmp_path: Path, http: aiohttp.ClientSession, endpoint: Endpoint
) -> None:
    sections = {"discovery": {"url": endpoint.url, "token": "hush"}}
    async with gateway(tmp_path / "far", {}) as far, gateway(tmp_path, {}, sections=sections) as opened:
        await far.hub.mount(notes("far", "of far"))
        tools = [{"name": "plan", "whenToUse": "Before anybody sails"}]
        endpoint.services = {
            "services": [
                endpoint.service("sea", far.url, description="Voyages", tags=["sea"], tools=tools),
                {"service_type": "REST", "id": "other", "connection": {"url": "https://other.example"}},
            ]
        }
        admin = Admin(opened, http)
        assert endpoint.asked == []

        status, listed = await admin("GET", "discovery")

        assert (status, [one["name"] for one in listed["services"]]) == (200, ["sea"])
        told = {"address": far.url, "display_name": "Sea", "description": "Voyages", "tags": ["sea"]}
        assert told.items() <= listed["services"][0].items()
        assert (listed["services"][0]["registered"], opened.hub.servers()) == (False, [])
        assert endpoint.asked[0]["authorization"] == "Bearer hush"
        made = await admin("POST", "discovery/sea", {})
        again = await admin("POST", "discovery/sea", {})
        assert (made[0], again[0], again[1]["version"]) == (201, 200, made[1]["version"])
        assert (made[1]["trust_level"], made[1]["defer_loading"], made[1]["scope"]) == ("community", True, "app")
        assert (await admin("GET", "discovery"))[1]["services"][0]["registered"] is True
        await opened.hub.ready(5)
        assert (await opened.hub.call("read_note")).text == "of far"


async def test_a_service_may_be_one_users_own_and_is_another_admins_business_alone(
    tmp_path: Path, http: aiohttp.ClientSession, endpoint: Endpoint
) -> None:
    endpoint.services = [endpoint.service("sea")]
    async with gateway(tmp_path, {}, sections={"discovery": {"url": endpoint.url}}) as opened:
        admin = Admin(opened, http)
        ana = Admin(opened, http, await admin.key("ana"))

        assert (await ana("GET", "discovery"))[0] == 403
        assert (await ana("POST", "discovery/sea", {}))[0] == 403
        assert endpoint.asked == []
        assert (await admin("POST", "discovery/sea", {"scope": "user"}))[0] == 422
        assert (await admin("POST", "discovery/sea", {"scope": "user", "user": "ana"}))[0] == 201
        assert (await admin("GET", "servers?user=ana"))[1]["servers"][0]["name"] == "sea"
        assert (await admin("GET", "discovery"))[1]["services"][0]["registered"] is False


async def test_a_name_that_another_has_is_left_to_that_one(tmp_path: Path, endpoint: Endpoint) -> None:
    endpoint.services = [endpoint.service("one"), endpoint.service("two")]
    sections = {"discovery": {"url": endpoint.url}}
    async with gateway(tmp_path, {"one": {"url": NOWHERE}}, ready=0, sections=sections) as opened:
        await opened.hub.register_server({"name": "two", "url": "https://two.example/mcp", "headers": {"x": "y"}})

        offered = await opened.hub.services.offered()

        assert ["configuration" in offered[0].problem, "Another server" in offered[1].problem] == [True, True]
        for name in ("one", "two"):
            with pytest.raises(RefusedError, match="cannot be registered"):
                await opened.hub.services.register(name)
        with pytest.raises(NotFoundError, match="'three'"):
            await opened.hub.services.register("three")
        assert (await opened.hub.relay.tenancy.servers.get("", "two")).spec.url == "https://two.example/mcp"


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ({"connection": {"url": "http://far.example/mcp"}}, "must be https"),
        ({"connection": {"url": "ftp://far.example"}}, "no plain http address"),
        ({"connection": {"url": "https://me:pass@far.example"}}, "no plain http address"),
        ({"connection": {"url": 5}}, "no text"),
        ({"connection": {"url": "https://far.example/${env:HOME}"}}, "variables"),
        ({"connection": {"url": "https://far.example", "type": "websocket"}}, "websocket"),
        ({"connection": {"command": "rm", "args": ["-rf"]}}, "allow_commands"),
        ({"connection": 7}, "no address"),
        ({"id": "../x"}, "server's name"),
        ({"id": "", "name": ""}, "server's name"),
        ({"tools": [{"name": "a b"}]}, "no good `name`"),
        ({"tools": {"name": "a"}, "tags": 5}, "tags"),
        ({"tools": 5}, "must be an object"),
    ],
)
def test_what_cannot_be_registered_says_why(service: Json, words: str) -> None:
    whole = {**Endpoint().service("sea", "https://far.example/mcp"), **service}

    found = read_services(json.dumps([whole]).encode(), allow_commands=False)

    assert [words in one.problem for one in found] == [True]


def test_a_command_is_offered_where_the_operator_allows_commands_and_still_reads_no_variables() -> None:
    def problem(*args: str) -> str:
        service = {**Endpoint().service("sea"), "connection": {"command": "uvx", "args": list(args)}}
        return read_services(json.dumps([service]).encode(), allow_commands=True)[0].problem

    assert (problem("some-server"), "variables" in problem("${secret:TOKEN}")) == ("", True)


@pytest.mark.parametrize("body", [b"no json", b"5", b'{"services": 5}', b"[" * 100_000, b'{"other": []}'])
def test_an_answer_that_is_no_list_of_services_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="discovery endpoint"):
        read_services(body, allow_commands=False)


def test_services_have_a_number_and_each_name_is_offered_once() -> None:
    many = [Endpoint().service(f"s{number}") for number in range(1_001)]

    with pytest.raises(ProtocolError, match="more than 1000"):
        read_services(json.dumps(many).encode(), allow_commands=False)
    twice = [Endpoint().service("a", "https://a.example"), Endpoint().service("a", "https://b.example")]
    found = read_services(json.dumps(twice).encode(), allow_commands=False)
    assert [one.address for one in found] == ["https://a.example"]


async def test_an_endpoint_that_fails_is_told_with_its_address(endpoint: Endpoint) -> None:
    section = DiscoverySection(url=endpoint.url + "?secret=x", timeout=5)

    for status in (302, 401, 500):
        endpoint.status = status
        with pytest.raises(UnreachableError, match=rf"/services answered {status}"):
            await fetch(section)
    endpoint.status, endpoint.body = 200, b" " * (LARGEST_ANSWER + 1)
    with pytest.raises(UnreachableError, match="no answer for us"):
        await fetch(section)
    with pytest.raises(UnreachableError, match="no answer for us"):
        await fetch(DiscoverySection(url=NOWHERE))
    with pytest.raises(ConfigError, match="must be https"):
        await fetch(DiscoverySection(url="http://far.example/services", token="hush"))
    with pytest.raises(RefusedError, match="no discovery endpoint"):
        await fetch(DiscoverySection())
    assert len(endpoint.asked) == 4


def test_the_command_lists_what_is_offered_and_registers_one_where_no_gateway_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint
) -> None:
    cli = Inside(tmp_path, monkeypatch)
    endpoint.services = [
        endpoint.service("sea", description="Voyages"),
        endpoint.service("bad", "http://far.example/mcp"),
    ]
    (cli.home / "trunkline.toml").write_text('[discovery]\nurl = "https://configured.example"\ntoken = "hush"\n')

    listed = cli.run("discover", "--url", endpoint.url)
    assert "+ sea" in listed.stdout
    assert "must be https" in listed.stdout
    assert "1 to register" in listed.stderr
    assert not list(cli.home.rglob("trunkline.db"))
    made = cli.run("discover", "--url", endpoint.url, "--register", "sea")
    again = cli.run("discover", "--url", endpoint.url, "--register", "sea", "--json")
    assert "Registered 'sea' for everybody." in made.stderr
    assert json.loads(again.stdout)["registered"] is False
    assert json.loads(again.stdout)["services"][0]["registered"] is True
    refused = cli.run("discover", "--url", endpoint.url, "--register", "bad")
    assert (refused.returncode != 0, "cannot be registered" in refused.stderr) == (True, True)
    assert "--url" in cli.run("discover", "--user", "ana").stderr
    assert not any("authorization" in asked for asked in endpoint.asked)
