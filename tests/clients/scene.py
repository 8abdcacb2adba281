"""A machine with clients on it: a home, a folder, and configurations as their documentation shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trunkline.clients.client import CLIENTS, Around, Place, target
from trunkline.clients.server import Findings, find

FILES = Path(__file__).parent / "files"

LAID = {
    "claude-desktop": ("claude-desktop/claude_desktop_config.json", "home/.config/Claude/claude_desktop_config.json"),
    "claude-code": ("claude-code/user.json", "home/.claude.json"),
    "claude-code-project": ("claude-code/project.json", "work/.mcp.json"),
    "cursor": ("cursor/mcp.json", "home/.cursor/mcp.json"),
    "cursor-empty": ("cursor/empty.json", "home/.cursor/mcp.json"),
    "cursor-project": ("cursor/plain.json", "work/.cursor/mcp.json"),
    "vscode": ("vscode/mcp.json", "home/.config/Code/User/mcp.json"),
    "vscode-insiders": ("vscode/mcp.json", "home/.config/Code - Insiders/User/mcp.json"),
    "vscode-project": ("vscode/mcp.json", "work/.vscode/mcp.json"),
    "vscode-settings": ("vscode/settings.json", "home/.config/Code/User/settings.json"),
    "windsurf": ("windsurf/mcp_config.json", "home/.codeium/windsurf/mcp_config.json"),
    "zed": ("zed/settings.json", "home/.config/zed/settings.json"),
    "zed-project": ("zed/settings.json", "work/.zed/settings.json"),
    "continue": ("continue/config.yaml", "home/.continue/config.yaml"),
    "continue-old": ("continue/config.json", "home/.continue/config.json"),
    "continue-project": ("continue/block.yaml", "work/.continue/mcpServers/trunkline.yaml"),
    "continue-json": ("continue/claude-style.json", "work/.continue/mcpServers/mcp.json"),
    "codex": ("codex/config.toml", "home/.codex/config.toml"),
    "codex-project": ("codex/config.toml", "work/.codex/config.toml"),
    "goose": ("goose/config.yaml", "home/.config/goose/config.yaml"),
    "gemini": ("gemini/settings.json", "home/.gemini/settings.json"),
    "gemini-project": ("gemini/settings.json", "work/.gemini/settings.json"),
    "opencode": ("opencode/opencode.json", "home/.config/opencode/opencode.json"),
    "opencode-project": ("opencode/second.json", "work/opencode.json"),
}
"""Where each file of ours belongs."""

TARGETS = [name for name in LAID if name not in ("vscode-settings", "continue-old", "continue-json")]
"""Those that Trunkline is written into."""


@dataclass
class Machine:
    """A home and a folder to work in."""

    root: Path
    env: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def folder(self) -> Path:
        return self.root / "work"

    @property
    def around(self) -> Around:
        return Around(self.home, self.folder, self.env, "linux")

    def text(self, name: str) -> str:
        """One of our files, made for this folder."""
        return (FILES / LAID[name][0]).read_text(encoding="utf-8").replace("@FOLDER@", str(self.folder))

    def lay(self, name: str, data: bytes | None = None) -> Path:
        """Put a file where its client looks for it."""
        path = self.root / LAID[name][1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.text(name).encode() if data is None else data)
        return path

    def find(self, *names: str) -> Findings:
        """Lay these files, and read everything that their clients have."""
        for name in names:
            self.lay(name)
        return find([client_of(name) for name in names], self.around)

    def target(self, name: str) -> Place:
        """The file that Trunkline is written into."""
        place = target(client_of(name), self.around, project=name.endswith("-project"))
        assert place is not None
        return place


def client_of(name: str) -> str:
    """The client of one of our files: the one whose name it begins with, the longest of those."""
    return max((client for client in CLIENTS if name.startswith(client)), key=len)
