"""The lines of docs/api.md, typed as they stand there, against a gateway."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import aiohttp

from tests.tenancy.test_access import open_house

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


async def test_every_line_of_the_page_is_answered(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("curl ")]
    answers: dict[str, str] = {}
    async with open_house(tmp_path, http, sections={"audit": {"enabled": True}}) as (opened, admin):
        await admin.key("ana")
        env = {"KEY": opened.key, "GATEWAY": opened.url.removesuffix("/mcp"), "PATH": "/usr/bin:/bin", "HOME": "/"}
        for line in lines:
            command = ["bash", "-c", line]
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, env=env, timeout=30, check=False
            )
            assert done.returncode in (0, 28), (line, done.stderr)  # 28: what never ends was ended by `--max-time`
            answers[line] = done.stdout

    assert len(lines) >= 10
    for line, said in answers.items():
        if said.startswith(("data:", "# HELP")):
            continue
        assert "error" not in json.loads(said or "{}"), (line, said)
    assert 'data: {"type":"hello"}' in str(answers)
