"""Fixtures that many tests share."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import aiohttp
import pytest_asyncio


@pytest_asyncio.fixture
async def http() -> AsyncGenerator[aiohttp.ClientSession]:
    """An HTTP client without limits of its own."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        yield session
