"""A plugin folder: its manifest is read, its command shown and agreed to, its tools read and called."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from trunkline import Secrets, Sources, open_hub, read_manifest
from trunkline.install.manifests.launch import plan, questions

MANIFEST = {
    "name": "com.example/greeter",
    "version": "1.0.0",
    "packages": [
        {
            "runtime": "python",
            "command": ["server.py"],
            "environment_variables": [
                {"name": "GREETING", "choices": ["Hello", "Ahoy"], "default": "Hello"},
                {"name": "API_KEY", "description": "Yours", "required": True, "secret": True},
            ],
        }
    ],
}
SERVER = """
import os
from mcp.server import MCPServer

server = MCPServer("greeter")
server.add_tool(lambda name: f"{os.environ['GREETING']}, {name}!", name="greet", description="Greet somebody.")
server.run()
"""


async def main(home: Path) -> None:
    plugin = home / "greeter"
    plugin.mkdir()
    (plugin / "plugin.json").write_text(json.dumps(MANIFEST))
    (plugin / "server.py").write_text(SERVER)

    secrets = Secrets(home / "secrets", keyring=lambda: None)
    secrets.set("greeter.API_KEY", "not-for-everyone")
    sources = Sources(secrets=secrets.get)
    sources.register("greeter", folder=plugin, environment={"GREETING": "Ahoy"}, lifecycle="singleton")

    shown = sources.show("greeter")
    print(f"It would run {shown.argv[0]} {Path(shown.argv[1]).name} with {', '.join(shown.variables)}.")
    sources.agree("greeter", shown.fingerprint)

    found = await sources.refresh("greeter")
    print(f"It has {found.discovered} tool, {found.created} of them new; it is {sources.health('greeter')}.")

    async with open_hub(sources.specs()) as hub:
        await hub.ready(20)
        print((await hub.call("greet", {"name": "Ana"})).text)

    print("A package of a registry, for which something must be asked:")
    package = {
        "registryType": "npm",
        "identifier": "@example/files",
        "version": "2.1.0",
        "packageArguments": [{"type": "positional", "valueHint": "folder", "isRequired": True}],
    }
    manifest = read_manifest({"name": "com.example/files", "packages": [package]}, where="server.json")
    print(f"  It asks for {', '.join(question.name for question in questions(manifest))}.")
    spec = plan(manifest, {"folder": "/srv/docs; rm -rf /"})
    print(f"  {[spec.command, *spec.args]}")


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRUNKLINE_HOME"] = folder
        asyncio.run(main(Path(folder)))
