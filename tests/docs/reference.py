"""Writes docs/configuration.md from the fields of the configuration: `python -m tests.docs.reference`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from trunkline.cli.up import NOT_FLAGS
from trunkline.config import GatewayConfig, ServerSpec, options

FILE = Path(__file__).parents[2] / "docs" / "configuration.md"

INTRODUCTION = """# Configuration

Written from the source by `python -m tests.docs.reference`; a test keeps it so.

`trunkline.toml` is looked for in the current folder, then in `~/.config/trunkline/`; `--config` names another. The JSON
file of a client (`mcpServers`, or VS Code's `servers`) works as it is: keys that mean nothing here are left alone. In
any value `${env:NAME}` (or `${NAME}`, or `${NAME:-default}`) stands for an environment variable. A server whose
variable is missing is shown as unreachable with that reason; the others start.

The file is watched. A change takes effect at once; servers that did not change are not touched. Changes of `[gateway]`
other than `namespace`, `conflicts` and `prefer` want a restart.
"""


def written() -> str:
    """The whole document."""
    parts = [INTRODUCTION, "## `[gateway]`\n", "| key | default | variable, flag | |", "|---|---|---|---|"]
    for option, document in options(GatewayConfig):
        variable = f"`TRUNKLINE_GATEWAY_{option.name.upper()}`"
        flag = "" if option.name in NOT_FLAGS else f", `--{option.name.replace('_', '-')}`"
        parts.append(f"| `{option.name}` | {_default(option)} | {variable}{flag} | {document} |")
    parts += ["\n## `[servers.NAME]`\n", "| key | default | |", "|---|---|---|"]
    for option, document in options(ServerSpec):
        parts.append(f"| `{option.name}` | {_default(option)} | {document} |")
    return "\n".join(parts) + "\n"


def _default(option: dataclasses.Field[Any]) -> str:
    if option.default is dataclasses.MISSING or option.default in ("", ()):
        return ""
    value = str(option.default).lower() if isinstance(option.default, bool) else option.default
    return f"`{value}`"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
