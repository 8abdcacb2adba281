"""What was taken over from other clients is signed in to at once, where a person is there who wants that."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import at_terminal
from tests.tenancy.oauth.provider import kept_tokens, provider

BROWSER = "import sys, urllib.request as r; r.build_opener(r.HTTPCookieProcessor()).open(sys.argv[1])"


@pytest.mark.slow
async def test_import_offers_to_sign_in_to_what_wants_it_and_does_as_login_does(tmp_path: Path) -> None:
    browser = tmp_path / "browser.py"
    browser.write_text(BROWSER)
    env = {
        "HOME": str(tmp_path),
        "TRUNKLINE_HOME": str(tmp_path / "state"),
        "PATH": "",
        "BROWSER": f"{sys.executable} {browser} %s",
    }
    async with provider() as one, provider() as other:
        servers = {"git": {"url": f"{one.url}/mcp"}, "wiki": {"url": f"{other.url}/mcp"}}
        (tmp_path / ".cursor").mkdir()
        (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        answers = {
            "to count tools? [y/N]": "y",
            "or none [all]": "all",
            "Sign in to git now? [y/N]": "y",
            "Sign in to wiki now? [y/N]": "n",
        }

        code, screen = await asyncio.to_thread(at_terminal, "import", "cursor", env=env, answers=answers)

        assert (code, "Signed in to 'git'" in screen) == (0, True), screen
        assert "trunkline login wiki" in screen.rpartition("Sign in: ")[2]
        assert screen.count("Sign in: ") == 1
        assert "[servers.wiki]" in (tmp_path / ".config" / "trunkline" / "trunkline.toml").read_text()
        assert one.tokens
        assert not other.authorizations
        assert await kept_tokens(tmp_path / "state") is not None
