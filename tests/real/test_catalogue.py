"""The catalogue says of servers what they are: a few of them, as `make test` installs them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.real.parts import PACKAGES, TOOLS, make_repository, node_server, python_server
from tests.real.verify_catalogue import spec_of, tools_of
from trunkline.install.marketplace.server_json import get_well_known_server

NODE = ("filesystem", "memory", "everything")
PYTHON = ("git", "time")


@pytest.mark.slow
@pytest.mark.parametrize("id", [*NODE, *PYTHON])
async def test_an_installed_server_has_the_version_and_the_tools_of_its_entry(id: str, tmp_path: Path) -> None:
    entry = get_well_known_server(id)
    assert entry is not None
    make_repository(tmp_path / "repository")
    # Started from where it is installed, with the arguments that the entry gives it.
    spec = spec_of(entry, tmp_path)
    extra = [word for word in spec.args if entry.version not in word and word != "-y"]
    if id == "filesystem":
        extra = [str(tmp_path)]
    here = node_server(id, *extra) if id in NODE else python_server(id, *extra)
    spec = dataclasses.replace(spec, command=here["command"], args=tuple(here["args"]))

    tools, problem = await tools_of(spec, tmp_path / "home")

    assert problem == ""
    assert sorted(tools) == sorted(entry.tools)
    assert _installed(id) == entry.version


def _installed(id: str) -> str:
    if id in NODE:
        return json.loads((PACKAGES / f"server-{id}" / "package.json").read_text())["version"]
    (found,) = (TOOLS / "servers").glob(f"lib/python*/site-packages/mcp_server_{id}-*.dist-info")
    return found.name.removesuffix(".dist-info").rpartition("-")[2]
