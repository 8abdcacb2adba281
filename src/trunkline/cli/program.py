"""`trunkline run`: a program over tools, from a file; its value goes to standard output as JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trunkline.cli.console import print_json, say
from trunkline.cli.main import Commands
from trunkline.cli.open import read_config, run, running_gateway, started
from trunkline.config.options import Config
from trunkline.errors import ConfigError, ProgramError
from trunkline.tool import PROGRAM
from trunkline.wire.members import decode_object

if TYPE_CHECKING:
    from trunkline.cli.running import Running


def add_commands(commands: Commands) -> None:
    """Add the command that runs programs."""
    program = commands.add(
        "run",
        commands.common,
        description="Run a program over tools: Python in which each tool is an async function, such as `await "
        'time__get_current_time(timezone="UTC")`. Its last expression is printed as JSON; what it prints goes to '
        "standard error. What needs your agreement is asked in this terminal. Exit code 1 means that it failed.",
    )
    program.add_argument("file", metavar="FILE", help="the program; - reads standard input")
    program.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="for the program with its tools (default: 60)"
    )
    program.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    config, code = read_config(options), _text(options.file)
    try:
        value = run(lambda: _value(config, code, options.timeout))
    except ProgramError as error:
        sys.stderr.write(error.printed)
        say(f"The program failed. {error}")
        return 1
    print_json(value)
    return 0


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The program {file!r} cannot be read: {error}.") from error


async def _value(config: Config, code: str, timeout: float) -> Any:
    from trunkline.cli.use import answer_here

    running = running_gateway(config)
    if running is not None:
        return await _there(running, config, code, timeout)
    async with started(config, min(timeout, 30.0)) as hub:
        answer_here(hub.elicitation)
        result = await hub.run(code, timeout=timeout)
    sys.stderr.write(result.printed)
    return result.value


async def _there(running: Running, config: Config, code: str, timeout: float) -> Any:
    """The same through the gateway that has the servers already, so that its calls are the gateway's."""
    from trunkline.cli.line import call_tool
    from trunkline.cli.running import RunningHub
    from trunkline.cli.use import answer_here
    from trunkline.model import Entry
    from trunkline.questions.bridge import LocalAnswers
    from trunkline.tools.guidance import OWN

    await RunningHub(running, config).ready(min(timeout, 30.0))
    answers = LocalAnswers(config.gateway.question_timeout)
    answer_here(answers.elicitation)
    entry = Entry(PROGRAM, "", PROGRAM, b"{}")
    result = decode_object(await call_tool(running, entry, {"code": code}, timeout=timeout, answers=answers))
    meta = cast("dict[str, Any]", result.get("_meta") or {})
    told = cast("dict[str, Any]", meta.get(f"{OWN}program") or {})
    if result.get("isError"):
        raise ProgramError(str(told.get("error") or result["content"][0]["text"]), printed=str(told.get("printed", "")))
    sys.stderr.write(str(told.get("printed", "")))
    return told.get("value")
