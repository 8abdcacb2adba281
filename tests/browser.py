"""A real browser for tests: the machine's own Chromium, or the one that came with the tools."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from tests.harness import NODE

TOOLS = Path(__file__).parents[1] / ".tools"

_UNPACK = """
import chromium from '@sparticuz/chromium';
console.log(await chromium.executablePath());
console.log(process.env.LD_LIBRARY_PATH ?? '');
"""


@cache
def chromium() -> tuple[str, dict[str, str]]:
    """The program, and what it needs in its environment."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path is not None:
            return path, {}
    # It brings the libraries that a bare machine lacks, and unpacks them where it believes to be at its usual host.
    env = {**os.environ, "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x", "AWS_LAMBDA_JS_RUNTIME": "nodejs22.x"}
    command = [str(NODE), "--input-type=module", "--eval", _UNPACK]
    # Several workers may be the first: one unpacks, and the others wait, since what is being written cannot be run.
    with (Path(tempfile.gettempdir()) / "trunkline-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = subprocess.run(command, cwd=TOOLS, env=env, capture_output=True, text=True, timeout=120, check=True)
    path, libraries = ended.stdout.splitlines()
    return path, {"LD_LIBRARY_PATH": libraries} if libraries else {}


@asynccontextmanager
async def browser(*flags: str) -> AsyncGenerator[Browser]:
    """A browser without a window."""
    path, env = chromium()
    args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *flags]
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=args, env={**os.environ, **env})
        try:
            yield opened
        finally:
            await opened.close()
