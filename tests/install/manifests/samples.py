"""Manifests that the tests share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.harness import STDIO_SERVER
from trunkline.install.manifests.manifest import Manifest
from trunkline.install.manifests.reader import read_manifest

Json = dict[str, Any]

PLUGIN: Json = {
    "name": "@modelcontextprotocol/github",
    "version": "1.0.0",
    "description": "GitHub MCP server for repository operations",
    "packages": [
        {
            "name": "default",
            "transport_type": "stdio",
            "runtime": "uvx",
            "command": ["mcp-server-github"],
            "environment_variables": [
                {"name": "GITHUB_TOKEN", "description": "A token", "required": True, "secret": True}
            ],
        }
    ],
}


def npm(**package: Any) -> Json:
    """A `server.json` with one package for npx, and whatever else it is said to have."""
    base: Json = {"registryType": "npm", "identifier": "@acme/weather", "version": "1.2.3"}
    return {
        "name": "io.github.acme/weather",
        "description": "Weather",
        "version": "1.2.3",
        "packages": [{**base, "transport": {"type": "stdio"}, **package}],
    }


def oci(**package: Any) -> Json:
    """The same, as an image."""
    return npm(**{"registryType": "oci", "identifier": "acme/weather", **package})


def remote(url: str, **rest: Any) -> Json:
    """A `server.json` with one remote."""
    return {"name": "io.github.acme/weather", "remotes": [{"type": "streamable-http", "url": url, **rest}]}


def read(value: Json) -> Manifest:
    """The manifest of a file's content."""
    return read_manifest(value, where="server.json")


def plugin_folder(folder: Path, *flags: str, **package: Any) -> Path:
    """A folder with a plugin that really works, started by python3."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(STDIO_SERVER, folder / "server.py")
    made: Json = {"runtime": "python3", "command": ["server.py", *flags], **package}
    (folder / "plugin.json").write_text(json.dumps({"name": "acme/echo", "version": "1.0.0", "packages": [made]}))
    return folder
