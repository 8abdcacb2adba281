"""Fixtures that many tests share."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator

import aiohttp
import pytest_asyncio

# A shell that runs the tests in the background has Ctrl-C ignored, and what they start would ignore it as well.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest_asyncio.fixture
async def http() -> AsyncGenerator[aiohttp.ClientSession]:
    """An HTTP client without limits of its own."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        yield session
