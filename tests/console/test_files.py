"""The console's files, as they are served: complete, unchanged, cached for good, and for reading alone."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from tests.harness import gateway
from trunkline.gateway.console.files import FOLDER, PATH, version


@pytest_asyncio.fixture
async def base(tmp_path: Path) -> AsyncGenerator[str]:
    """Where a gateway that wants a token is."""
    async with gateway(tmp_path, {}, token="an-unguessable-token-1") as opened:
        yield opened.url.removesuffix("/mcp")


def test_what_others_wrote_is_what_was_vendored() -> None:
    lines = (FOLDER / "vendor" / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (FOLDER / "vendor").iterdir()}
    found.pop("SHA256SUMS")

    assert found == sums
    licences = (FOLDER / "vendor" / "LICENSES.txt").read_text()
    for part in ("preact 11.2.0", "htm 3.1.1", "@preact/signals 2.11.4"):
        assert part in licences


def test_nothing_of_ours_makes_html_of_text() -> None:
    dangers = r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|document\.write|\beval\(|new Function|srcdoc"
    found = [
        file.name
        for file in FOLDER.rglob("*.js")
        if "vendor" not in file.parts and re.search(dangers, file.read_text())
    ]

    assert found == []
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! type=\"module\" src=)|https?:", page)


async def test_the_page_needs_no_key_and_says_what_it_may_do(base: str, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{base}/") as page:
        text, policy = await page.text(), page.headers["content-security-policy"]
        assert (page.status, page.headers["cache-control"]) == (200, "no-cache")

    assert f"{PATH}{version()}/app.js" in text
    assert "unsafe" not in policy
    assert {
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    } <= {one.strip() for one in policy.split(";")}


async def test_files_are_kept_for_good_and_sent_compressed(base: str, http: aiohttp.ClientSession) -> None:
    url = f"{base}{PATH}{version()}/pages/tools.js"
    async with http.get(url, headers={"accept-encoding": "identity"}) as plain:
        body, etag = await plain.read(), plain.headers["etag"]
        assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
        assert "immutable" in plain.headers["cache-control"]
    async with http.get(url, headers={"if-none-match": etag}) as again:
        assert (again.status, await again.read()) == (304, b"")
    async with aiohttp.ClientSession(auto_decompress=False) as raw, raw.get(url) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(await packed.read()) == body
    async with http.head(url) as head:
        assert (head.status, await head.read()) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "{version}/../files.py",
        "{version}/files.py",
        "{version}/%2e%2e/app.py",
        "{version}/vendor/SHA256SUMS",
        "0123456789abcdef/app.js",
        "{version}/",
        "",
    ],
)
async def test_nothing_else_is_served(base: str, http: aiohttp.ClientSession, path: str) -> None:
    from yarl import URL

    async with http.get(URL(base + PATH + path.format(version=version()), encoded=True)) as answer:
        assert answer.status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_files_are_only_read(base: str, http: aiohttp.ClientSession, method: str) -> None:
    async with http.request(method, f"{base}/") as answer:
        assert answer.status == 405


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"host": "evil.example"}])
async def test_other_sites_get_nothing(base: str, http: aiohttp.ClientSession, headers: dict[str, str]) -> None:
    async with http.get(f"{base}/", headers=headers) as answer:
        assert answer.status in (403, 421)
