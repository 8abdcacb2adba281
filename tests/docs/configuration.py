"""The reference of the configuration, from its fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from trunkline.cli.up import NOT_FLAGS
from trunkline.config.oauth import OAuthSpec
from trunkline.config.options import SECTIONS, GroupSpec, ProfileSpec, RegistrySpec, options
from trunkline.config.server import ServerSpec
from trunkline.config.tenancy import IssuerSpec
from trunkline.tool import Annotations, ToolOptions

INTRODUCTION = """# Configuration

Written from the source by `python -m tests.docs.reference`; a test keeps it so.

`trunkline.toml` is looked for in the current folder, then in `~/.config/trunkline/`; `--config` names another. The JSON
file of a client (`mcpServers`, or VS Code's `servers`) works as it is: keys that mean nothing here are left alone. In
any value `${env:NAME}` (or `${NAME}`, or `${NAME:-default}`) stands for an environment variable; in `env`, `headers`
and tokens `${secret:NAME}` for a [secret](manifests.md#secrets). A server whose variable or secret is missing is shown
as unreachable with that reason; the others start.

The file is watched. A change takes effect at once; servers that did not change are not touched, and calls under way
end as they began. Changes of `[gateway]` other than `namespace`, `conflicts`, `prefer`, `expose`, `expose_limit` and
`pinned`, and of `[auth]`, want a restart.
"""


def configuration_page() -> str:
    """Every table of the configuration, and every key in it."""
    parts = [INTRODUCTION]
    for name, section in SECTIONS.items():
        parts += [f"## `[{name}]`\n", *_about(section), "| key | default | variable, flag | |", "|---|---|---|---|"]
        for option, document in options(section):
            variable = f"`TRUNKLINE_{name.upper()}_{option.name.upper()}`"
            if name == "gateway" and option.name not in NOT_FLAGS:
                variable += f", `--{option.name.replace('_', '-')}`"
            parts.append(f"| `{option.name}` | {_default(option)} | {variable} | {document} |")
        parts.append("")
    tables = {
        "servers.NAME": (ServerSpec,),
        "servers.NAME.oauth": (OAuthSpec,),
        "servers.NAME.tools.TOOL": (Annotations, ToolOptions),
        "groups.NAME": (GroupSpec,),
        "profiles.NAME": (ProfileSpec,),
        "registries.NAME": (RegistrySpec,),
        "auth.issuers.NAME": (IssuerSpec,),
    }
    for name, sections in tables.items():
        parts += [f"## `[{name}]`\n", *_about(sections[-1]), "| key | default | |", "|---|---|---|"]
        documented = {one[0].name: one for section in sections for one in options(section) if one[1]}
        for option, document in documented.values():
            parts.append(f"| `{option.name}` | {_default(option)} | {document} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _about(section: type[Any]) -> list[str]:
    about = " ".join((section.__doc__ or "").split()).partition(": ")[2]
    return [f"{about[:1].upper()}{about[1:]}\n"] if about else []


def _default(option: dataclasses.Field[Any]) -> str:
    if option.default is dataclasses.MISSING or option.default in ("", (), None):
        return ""
    value = str(option.default).lower() if isinstance(option.default, bool) else option.default
    return f"`{value}`"
