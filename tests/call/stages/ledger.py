"""A server that writes every call into a file, so that a test sees what really reached it: `python ledger.py FILE`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

LOG = Path(sys.argv[1])
NAME = sys.argv[2] if len(sys.argv) > 2 else "ledger"
READS = ToolAnnotations(read_only_hint=True)

server = MCPServer(NAME, version="1.0.0")


def note(line: str) -> int:
    """Write one line; how many there are of it now."""
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"{NAME} {line}\n")
    return LOG.read_text(encoding="utf-8").splitlines().count(f"{NAME} {line}")


@server.tool(annotations=READS)
def get_balance(account: str) -> str:
    """Read the balance of an account."""
    return f"{account}: {note(f'get_balance {account}')} by {NAME}"


@server.tool(annotations=READS)
def get_wrong(account: str) -> str:
    """Read something that fails."""
    note(f"get_wrong {account}")
    raise ValueError("There is no such account.")


@server.tool(annotations=READS)
async def get_slowly(key: str) -> str:
    """Read something, as soon as the file FILE.go is there."""
    number = note(f"get_slowly {key}")
    while not LOG.with_suffix(".go").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    return f"{key} {number} by {NAME}"


@server.tool()
def send_money(account: str, amount: int = 1) -> str:
    """Send money to an account."""
    return f"sent {note(f'send_money {account}')} times by {NAME}"


@server.tool()
def delete_account(account: str) -> str:
    """Delete an account for good."""
    return f"deleted {note(f'delete_account {account}')} times by {NAME}"


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def crash_once(key: str) -> str:
    """End the process at the first call, whichever server gets it, and answer at the second."""
    note(f"crash_once {key}")
    if LOG.read_text(encoding="utf-8").count(f" crash_once {key}\n") == 1:
        os._exit(1)
    return f"answered {key} by {NAME}"


@server.tool()
def crash_after_payment(account: str) -> str:
    """Pay, then end the process before it can say so."""
    note(f"crash_after_payment {account}")
    os._exit(1)


@server.resource("ledger://rules")
def rules() -> str:
    """The rules of the house."""
    return f"Rule {note('rules')}"


if __name__ == "__main__":
    server.run("stdio")
