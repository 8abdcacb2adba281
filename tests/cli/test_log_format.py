"""`--log-format json`: everything that is said beside the output is one object on each line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.harness import TRUNKLINE, faulty, trunkline_up


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_gateway_writes_a_log_for_programs(tmp_path: Path) -> None:
    servers = {"one": faulty(), "gone": {"command": "/no/such/program"}}
    with trunkline_up(tmp_path, {"mcpServers": servers}, "--log-format", "json") as (_, process):
        assert process.stderr is not None
        said: list[dict[str, Any]] = []
        while {one.get("server") for one in said} < {None, "one", "gone"}:
            said += lines(process.stderr.readline())
        process.terminate()
        said += lines(process.communicate(timeout=20)[1])

    states = {(one["server"], one["state"]) for one in said if "server" in one}
    assert {("one", "ready"), ("gone", "unreachable")} <= states
    assert all({"time", "level", "message"} <= one.keys() for one in said)
    assert said[-1]["message"] == "Stopping."


def test_so_does_the_bridge_of_a_client(tmp_path: Path) -> None:
    config = tmp_path / "trunkline.toml"
    config.write_text("[gateway]\nlog_format = 'json'\n")
    command = [TRUNKLINE, "stdio", "--config", str(config), "--url", "http://127.0.0.1:1/mcp"]
    hello = '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    done = subprocess.run(
        command,
        input=hello,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TRUNKLINE_HOME": str(tmp_path)},
    )

    said = lines(done.stderr)

    assert said
    assert all({"time", "level", "message"} <= one.keys() for one in said)
    assert "gateway" in said[0]["message"]
