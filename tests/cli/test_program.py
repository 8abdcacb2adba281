"""`trunkline run`: a program over tools, by itself and through the gateway that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.terminal import at_terminal
from tests.harness import TESTS, TRUNKLINE, trunkline_up

SERVER = TESTS / "sandbox" / "shop_server.py"
GOOD = "print('so far')\n[(await price(item=item))['price'] for item in ('pen', 'paper')]\n"
WRITES = """
import asyncio
async def one(item):
    try:
        return await order(item=item)
    except PermissionError:
        return "no " + item
await asyncio.gather(one("pen"), one("paper"), one("ink"))
"""


def test_a_program_prints_its_value_as_json_alone_or_through_the_gateway(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": ["-S", str(SERVER), str(tmp_path / "orders")]}
    config = {"servers": {"shop": server}}
    home = tmp_path / "home"
    home.mkdir()
    file = home / "config.json"
    file.write_text(json.dumps(config))
    env = {**os.environ, "TRUNKLINE_HOME": str(home)}

    def run(code: str) -> subprocess.CompletedProcess[str]:
        words = [TRUNKLINE, "run", "-", "--config", str(file)]
        return subprocess.run(words, input=code, capture_output=True, text=True, env=env, timeout=100, check=False)

    alone = run(GOOD)
    with trunkline_up(home, config):
        there = run(GOOD)
        failed = run("x = 1\nawait nobody()")

    for done in (alone, there):
        assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, [3, 5], "so far\n")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Line 2: NameError" in failed.stderr


def test_who_sits_at_the_terminal_agrees_to_some_of_what_a_program_wants(tmp_path: Path) -> None:
    orders, file, program = tmp_path / "orders", tmp_path / "config.json", tmp_path / "program.py"
    server = {"command": sys.executable, "args": ["-S", str(SERVER), str(orders)]}
    file.write_text(json.dumps({"servers": {"shop": server}, "middleware": {"confirm": "destructive"}}))
    program.write_text(WRITES)
    env = {**os.environ, "TRUNKLINE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    answers = {'item="pen") [y/n]': "y", 'item="paper") [y/n]': "n", 'item="ink") [y/n]': "y", "Submit? [Y/n]": "y"}

    code, screen = at_terminal("run", str(program), "--config", str(file), env=env, answers=answers)

    assert (code, screen.count("Nothing was done yet")) == (0, 1), screen
    assert json.loads(screen[screen.rindex("[\n") :]) == ["ordered pen", "no paper", "ordered ink"]
    assert sorted(orders.read_text().split()) == ["ink", "pen"]
