"""Starts every server of the built-in catalogue as `trunkline install` would, and compares its tools.

`python -m tests.real.verify_catalogue [ID ...] [--write]`; needs npx, uvx and a package index, and takes minutes.
With --write the tools in the catalogue become those that were found.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from trunkline import open_hub
from trunkline.config.options import Config
from trunkline.config.server import ServerSpec
from trunkline.install.marketplace.entry import RegistryEntry
from trunkline.install.marketplace.install import Installer
from trunkline.install.marketplace.server_json import FILE, OUR_META, get_all_well_known_servers
from trunkline.model import State

PATIENCE = 180.0
ADDRESSES = {
    "DATABASE_URL": "postgresql://nobody@127.0.0.1/none",
    "MDB_MCP_CONNECTION_STRING": "mongodb://127.0.0.1/none",
    "ES_URL": "http://127.0.0.1:9200",
    "GRAFANA_URL": "http://127.0.0.1:3000",
    "JIRA_URL": "https://none.atlassian.net",
    "CONFLUENCE_URL": "https://none.atlassian.net/wiki",
    "CLICKHOUSE_HOST": "127.0.0.1",
    "REDIS_HOST": "127.0.0.1",
}
OPTIONAL = ("JIRA_", "CONFLUENCE_")
"""Variables that decide which tools there are."""
GOOGLE = {"access_token": "x", "refresh_token": "x", "client_id": "x", "client_secret": "x", "type": "authorized_user"}


def spec_of(entry: RegistryEntry, folder: Path, **env: str) -> ServerSpec:
    """The entry's server with answers that mean nothing, but let it start."""
    (folder / "google.json").write_text(json.dumps(GOOGLE))
    installer = Installer(entry)
    answers: dict[str, str] = {}
    for variable in installer.questions():
        if variable.name == "GDRIVE_CREDENTIALS_PATH":
            answers[variable.name] = str(folder / "google.json")
        elif variable.format == "filepath" and variable.required:
            answers[variable.name] = str(folder / Path(variable.default).name)
        elif variable.name in ADDRESSES:
            answers[variable.name] = ADDRESSES[variable.name]
        elif variable.required or variable.name.startswith(OPTIONAL):
            answers[variable.name] = variable.default or "nothing"
    made = installer.spec(answers)
    return dataclasses.replace(made, env={**made.env, **env}, start_timeout=PATIENCE)


async def tools_of(spec: ServerSpec, home: Path) -> tuple[list[str], str]:
    """The tools of a running server, or why there are none."""
    async with open_hub(Config(servers={spec.name: spec}, home=home)) as hub:
        await hub.ready(PATIENCE)
        view = hub.snapshot.servers[spec.name]
        if view.state not in (State.READY, State.DEGRADED):
            return [], f"{view.state.value}: {view.reason} {hub.last_words(spec.name)[-300:]}"
        return [entry.name for entry in hub.snapshot.tools.values()], ""


def write(found: dict[str, list[str]]) -> None:
    """Put tools into the catalogue, line by line, so that nothing else of the file changes."""
    lines = FILE.read_text(encoding="utf-8").splitlines(keepends=True)
    id = ""
    for number, line in enumerate(lines):
        named = re.match(r'\s+"id": "(.*)",', line)
        id = named[1] if named else id
        if line.lstrip().startswith('"tools": ') and id in found:
            lines[number] = f'        "tools": {json.dumps(found[id])}\n'
    FILE.write_text("".join(lines), encoding="utf-8")
    said: Any = json.loads(FILE.read_bytes())["servers"]
    assert {one["_meta"][OUR_META]["id"] for one in said} >= set(found)


async def verify(ids: list[str], *, rewrite: bool) -> int:
    """Say of each entry whether it is true; the number of those that are not."""
    wrong = 0
    found: dict[str, list[str]] = {}
    env = {name: os.environ[name] for name in ("npm_config_cache", "UV_CACHE_DIR") if name in os.environ}
    for entry in get_all_well_known_servers():
        if ids and entry.id not in ids:
            continue
        if entry.url:
            print(f"- {entry.id}: runs elsewhere, and is not started", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            tools, problem = await tools_of(spec_of(entry, Path(folder), **env), Path(folder) / "home")
        same = sorted(tools) == sorted(entry.tools)
        wrong += not same or not entry.verified
        print(f"{'✓' if same else '✗'} {entry.id} {entry.version}: {len(tools)} tools {problem}", flush=True)
        if tools and not same:
            print(f"    more: {sorted(set(tools) - set(entry.tools))}; fewer: {sorted(set(entry.tools) - set(tools))}")
            found[entry.id] = tools
    if rewrite:
        write(found)
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    sys.exit(1 if asyncio.run(verify(given.ids, rewrite=given.write)) else 0)
