"""A remote server is not there, not the right one, or not at this address."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.doctor.scene import Machine, Page, website
from tests.harness import faulty_http

TEXT = {"Content-Type": "text/plain"}


@pytest.fixture(scope="module")
def old_url() -> Generator[str]:
    """The address of a server that speaks only HTTP+SSE."""
    script = Path(__file__).parents[1] / "upstream" / "sse_server.py"
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/sse"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_host_that_nobody_knows_is_a_matter_of_names(machine: Machine) -> None:
    machine.configure({"url": "http://no-such-host.invalid/mcp"})

    told = machine.doctor()

    assert told.codes == ["TL301"]
    assert "no-such-host.invalid" in told.finding("TL301")["seen"]


def test_where_nothing_listens_a_server_must_be_started(machine: Machine) -> None:
    with faulty_http() as url:
        machine.configure({"url": url})
    told = machine.doctor()

    assert told.codes == ["TL302"]
    assert "Start the server" in told.advice
    with faulty_http("--port", url.split(":")[2].partition("/")[0]):
        assert machine.is_well()


def test_an_address_that_takes_calls_and_says_nothing_is_silent(machine: Machine) -> None:
    with faulty_http("--start", "hang") as url:
        machine.configure({"url": url})

        assert machine.doctor(timeout=1).codes == ["TL303"]


@pytest.mark.parametrize("path", ["", "/", "/sse", "/mcp/", "/v1", "/mcp/sse"])
def test_a_wrong_path_is_corrected_where_the_right_one_provably_works(path: str, machine: Machine) -> None:
    with faulty_http() as url:
        machine.configure({"url": url.removesuffix("/mcp") + path, "timeout": 9})
        machine.file.write_text(f"# mine\n{machine.file.read_text()}")
        before = machine.file.read_text()
        told = machine.doctor()

        fixed = machine.doctor("--fix", "--yes")

        assert told.codes == ["TL308"]
        assert f'url = "{url}"' in told.advice
        assert (fixed.code, fixed.codes) == (0, [])
        assert machine.file.read_text() == before.replace(f'"{url.removesuffix("/mcp")}{path}"', f'"{url}"')
        assert (machine.folder / "trunkline.toml.before-doctor").read_text() == before
        assert "before-doctor" in fixed.fixed[0]


def test_a_path_without_any_mcp_nearby_is_only_named(machine: Machine) -> None:
    with website({}) as origin:
        machine.configure({"url": f"{origin}/mcp"})

        told = machine.doctor("--fix", "--yes")

    assert (told.code, told.codes, told.fixed) == (1, ["TL308"], [])
    assert told.finding("TL308")["fixable"] is False


def test_a_web_page_is_told_from_mcp(machine: Machine) -> None:
    with website({"/": Page(), "/docs": Page()}) as origin:
        machine.configure({"url": f"{origin}/docs"})

        assert machine.doctor().codes == ["TL310"]


def test_a_client_file_is_corrected_as_well(machine: Machine) -> None:
    with faulty_http() as url:
        file = machine.folder / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"it": {"serverUrl": url.removesuffix("/mcp")}}}))

        told = machine.doctor("--config", str(file), "--fix", "--yes")

        assert (told.code, told.codes) == (0, [])
        assert json.loads(file.read_text()) == {"mcpServers": {"it": {"serverUrl": url}}}


def test_a_server_of_the_older_transport_works_by_itself_and_not_when_another_is_insisted_on(
    old_url: str, machine: Machine
) -> None:
    machine.configure({"url": old_url, "transport": "http"})

    told = machine.doctor()

    assert told.codes == ["TL309"]
    assert 'transport = "sse"' in told.advice
    machine.configure({"url": old_url})
    assert machine.is_well()


def test_the_older_transport_where_the_newer_is_spoken_is_wrong_too(machine: Machine) -> None:
    with faulty_http("--no-get") as url:
        machine.configure({"url": url, "transport": "sse"})

        told = machine.doctor()

        assert told.codes == ["TL309"]
        assert 'transport = "http"' in told.advice
        machine.configure({"url": url, "transport": "http"})
        assert machine.is_well()


def test_mcp_written_for_a_server_that_has_sse_is_corrected(old_url: str, machine: Machine) -> None:
    machine.configure({"url": old_url.replace("/sse", "/mcp")})

    told = machine.doctor()

    assert told.codes == ["TL308"]
    assert f'url = "{old_url}"' in told.advice


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_token_says_so(status: int, machine: Machine) -> None:
    with website({"/mcp": Page(status, "{}", {"WWW-Authenticate": "Bearer"})}) as origin:
        machine.configure({"url": f"{origin}/mcp"})
        without = machine.doctor()
        machine.configure({"url": f"{origin}/mcp", "headers": {"Authorization": "Bearer the-wrong-one"}})
        refused = machine.doctor()

    assert without.codes == ["TL311"]
    assert "${env:IT_TOKEN}" in without.advice
    assert refused.codes == ["TL312"]
    assert "the-wrong-one" not in refused.text


def test_a_403_without_a_challenge_is_about_rights_as_well(machine: Machine) -> None:
    with website({"/mcp": Page(403, "no", TEXT)}) as origin:
        machine.configure({"url": f"{origin}/mcp"})

        assert machine.doctor().codes == ["TL311"]


def test_a_redirection_to_another_place_is_shown(machine: Machine) -> None:
    with faulty_http() as url, website({"/mcp": Page(308, "", {"Location": f"{url}?key=s3cret"})}) as origin:
        machine.configure({"url": f"{origin}/mcp"})
        told = machine.doctor()
        machine.configure({"url": url})

        assert told.codes == ["TL313"]
        assert f'url = "{url}"' in told.advice
        assert "s3cret" not in told.text
        assert machine.is_well()


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_that_fails_is_told_from_a_wrong_address(status: int, machine: Machine) -> None:
    with website({"/mcp": Page(status, "oops", TEXT)}) as origin:
        machine.configure({"url": f"{origin}/mcp"})

        told = machine.doctor()

    assert told.codes == ["TL314"]
    assert str(status) in told.finding("TL314")["seen"]


def test_an_answer_that_is_something_else_is_quoted(machine: Machine) -> None:
    with website({"/mcp": Page(200, '{"hello": "world"}', {"Content-Type": "application/json"})}) as origin:
        machine.configure({"url": f"{origin}/mcp"})

        told = machine.doctor()

    assert told.codes == ["TL315"]
    assert "hello" in told.finding("TL315")["seen"]


def test_a_port_that_is_no_port_is_a_wrong_value(machine: Machine) -> None:
    machine.configure({"url": "http://127.0.0.1:99999/mcp"})

    assert machine.doctor().codes == ["TL105"]


def test_headers_go_to_no_other_place(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.1)
        target = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/mcp"
        with website({"/mcp": Page(307, "", {"Location": target})}) as origin:
            machine.configure({"url": f"{origin}/mcp", "headers": {"Authorization": "Bearer mine-alone"}})
            told = machine.doctor()

        assert told.codes == ["TL313"]
        with pytest.raises(TimeoutError):
            elsewhere.accept()
