"""Programs that run servers: whose they are, and how to get them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

_NODE = "Install Node.js 20 or newer, which brings it: with your system's packages, nvm, or from nodejs.org."
_UV = "Install uv, which brings it: `pip install uv`, `pipx install uv`, or your system's packages."
_PYTHON = "Install Python 3.10 or newer: with your system's packages, uv, or from python.org."
_DOCKER = "Install Docker Engine or Docker Desktop, and let yourself use it."

RUNTIMES: Mapping[str, str] = {
    "npx": _NODE,
    "node": _NODE,
    "npm": _NODE,
    "pnpm": "Install pnpm: `npm install --global pnpm`.",
    "yarn": "Install Yarn: `npm install --global yarn`.",
    "tsx": "Install tsx: `npm install --global tsx`.",
    "bun": "Install Bun: `npm install --global bun`.",
    "bunx": "Install Bun: `npm install --global bun`.",
    "deno": "Install Deno: `npm install --global deno`.",
    "uvx": _UV,
    "uv": _UV,
    "pipx": "Install pipx: with your system's packages, or `pip install pipx`.",
    "python": _PYTHON,
    "python3": _PYTHON,
    "docker": _DOCKER,
    "podman": "Install Podman, with your system's packages.",
    "java": "Install a Java runtime (JRE 17 or newer), with your system's packages.",
    "dotnet": "Install the .NET runtime, with your system's packages.",
    "go": "Install Go, with your system's packages.",
    "cargo": "Install Rust, with your system's packages or rustup.",
    "ruby": "Install Ruby, with your system's packages.",
    "php": "Install PHP, with your system's packages.",
}

DOWNLOADERS = frozenset(("npx", "npm", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx", "docker", "podman", "deno"))
"""Those that may fetch a server before they run it."""

_TWINS = {"python": "python3", "python3": "python", "npx": "bunx", "docker": "podman"}

_PLACES = (
    ".local/bin", ".cargo/bin", ".volta/bin", ".bun/bin", ".deno/bin", ".nvm/versions/node/*/bin", ".fnm/aliases/*/bin",
    ".asdf/shims", ".pyenv/shims", ".local/share/mise/shims",
    "/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/snap/bin", "/Applications/Docker.app/Contents/Resources/bin",
)  # fmt: skip


def how_to_get(command: str, path: str) -> str:
    """What to do about a runtime that is missing."""
    twin = _TWINS.get(command, "")
    if twin and shutil.which(twin, path=path):
        return f'There is {twin!r}: write command = "{twin}". Or: {RUNTIMES[command][0].lower()}{RUNTIMES[command][1:]}'
    return RUNTIMES[command]


def elsewhere(command: str, env: Mapping[str, str]) -> Path | None:
    """Where a program lies that is not in the PATH, as installers leave it."""
    home = Path(env.get("HOME", "/nowhere"))
    for place in _PLACES:
        base = Path("/") if place.startswith("/") else home
        for found in sorted(base.glob(f"{place.lstrip('/')}/{command}"), reverse=True):
            if found.is_file():
                return found
    return None
