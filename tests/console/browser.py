"""A real Chromium, a gateway in a thread of its own, and pages that note whatever must not happen."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Playwright, ViewportSize

from tests.browser import TOOLS, chromium
from trunkline.config.options import Config
from trunkline.gateway.serve import Gateway, open_gateway

T = TypeVar("T")
DESK = str(Path(__file__).with_name("desk_server.py"))
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 360, "height": 740}
PATIENCE = 30_000
"""Milliseconds after which something will not happen any more, however busy the machine is."""
_WATCH = """addEventListener("securitypolicyviolation", (event) => {
    console.error(`CSP ${event.violatedDirective} ${event.blockedURI}`);
});"""


def launch(playwright: Playwright) -> Browser:
    """The browser of the machine, or else the one that npm brings."""
    path, env = chromium()
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    return playwright.chromium.launch(executable_path=path, args=flags, env={**os.environ, **env})


class Running:
    """A gateway that runs in a thread of its own."""

    def __init__(self, scene: AbstractAsyncContextManager[Config]) -> None:
        self._scene, self._ready, self._stop = scene, threading.Event(), asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))
        self.gateway: Gateway
        self.failed: BaseException | None = None

    def start(self) -> None:
        """Begin, and wait until the servers had their first try."""
        self._thread.start()
        assert self._ready.wait(60)
        assert self.failed is None, self.failed

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done where the gateway runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def start_soon(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """The same, without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def base(self) -> str:
        """Where the console is."""
        return self.gateway.url.removesuffix("/mcp")

    async def _run(self) -> None:
        try:
            async with self._scene as config, open_gateway(config) as self.gateway:
                await self.gateway.hub.ready(20)
                self._ready.set()
                await self._stop.wait()
        except BaseException as error:
            self.failed = error
            raise
        finally:
            self._ready.set()


@contextmanager
def running(scene: Config | AbstractAsyncContextManager[Config]) -> Generator[Running]:
    """A gateway in a thread, ended with the body; with what is to be around it, if it needs more than itself."""
    one = Running(nullcontext(scene) if isinstance(scene, Config) else scene)
    one.start()
    try:
        yield one
    finally:
        one.stop()


class Watched:
    """A page, and what must not happen on it."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base = page, base
        self.wrong: list[str] = []
        page.add_init_script(_WATCH)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", self._interrupted)
        page.on("request", lambda request: self._asked(request.url))

    def _said(self, message: ConsoleMessage) -> None:
        # A refusal that the page shows is written here as well, by the browser.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.wrong.append(f"console: {message.text}")

    def _interrupted(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "data:", "blob:")):
            self.wrong.append(f"foreign request: {url}")

    def open(self, place: str = "overview") -> Page:
        """Go somewhere in the console, and wait until it is there; what was typed where one was is gone."""
        if not self.page.url.startswith(self.base):
            self.page.goto(f"{self.base}/#/{place}")
        elif self._is_at(place):
            self._go("connections" if place == "keys" else "keys")
            self._go(place)
        else:
            self._go(place)
        self.page.locator("main h1:not([data-left])").first.wait_for()
        self.settle()
        return self.page

    def sign_in(self, key: str) -> None:
        """Be somebody, as if one had signed in before."""
        answer = self.page.context.request.post(f"{self.base}/api/v1/session", data={"key": key})
        assert answer.ok, answer.text()

    def settle(self) -> None:
        """Wait until nothing is being loaded."""
        self.page.locator(".loading").first.wait_for(state="detached")

    def _is_at(self, place: str) -> bool:
        return self.page.url.partition("#/")[2].partition("?")[0] == place.partition("?")[0]

    def _go(self, place: str) -> None:
        """Leave the page; what it was called is marked, since it stays until the next one is there."""
        self.page.locator("main h1:not([data-left])").first.wait_for()
        leave = """place => {
            document.querySelector("main h1").dataset.left = "";
            location.hash = place;
        }"""
        self.page.evaluate(leave, f"#/{place}")


@contextmanager
def watched(browser: Browser, base: str, **options: Any) -> Generator[Watched]:
    """A page in a context of its own; whatever must not happen is told at its end."""
    given: dict[str, Any] = {"viewport": WIDE, "reduced_motion": "reduce", **options}
    context: BrowserContext = browser.new_context(**given)
    context.set_default_timeout(PATIENCE)
    try:
        one = Watched(context.new_page(), base)
        yield one
        assert one.wrong == []
    finally:
        context.close()


@cache
def axe() -> str:
    """The source of axe."""
    return (TOOLS / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@contextmanager
def counted(page: Page) -> Generator[list[float]]:
    """The bytes that arrive meanwhile over the wire, one number for each answer."""
    sizes: list[float] = []
    wire: Any = page.context.new_cdp_session(page)
    wire.send("Network.enable")

    def arrived(event: dict[str, Any]) -> None:
        sizes.append(event["encodedDataLength"])

    wire.on("Network.loadingFinished", arrived)
    yield sizes


def findings(page: Page, *, colours_only: bool = False) -> list[str]:
    """What axe finds wrong with a page; its colours alone where nothing else differs from what was looked at before."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    if colours_only:
        options["runOnly"] = {"type": "tag", "values": ["cat.color"]}
        # It is asked for by nobody who does not name it, and a tag names it.
        options["rules"] = {"color-contrast-enhanced": {"enabled": False}}
    found: list[dict[str, Any]] = page.evaluate(
        "options => axe.run(options).then((found) => found.violations)", options
    )
    return [f"{one['id']}: {[node['target'] for node in one['nodes']][:3]} {one['help']}" for one in found]


Look = tuple[dict[str, int], Literal["light", "dark"]]
LOOKS: tuple[Look, ...] = ((WIDE, "light"), (WIDE, "dark"), (NARROW, "dark"), (NARROW, "light"))
"""How each page is looked at."""


def looked_at(page: Page, what: str) -> list[str]:
    """What is wrong with a page in any theme and width."""
    wrong: list[str] = []
    seen: list[dict[str, int]] = []
    for size, theme in LOOKS:
        page.set_viewport_size(ViewportSize(width=size["width"], height=size["height"]))
        page.emulate_media(color_scheme=theme)
        wrong += [f"{what} {size['width']} {theme}: {one}" for one in findings(page, colours_only=size in seen)]
        seen.append(size)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wrong.append(f"{what} is wider than {size['width']}")
    page.set_viewport_size(ViewportSize(width=WIDE["width"], height=WIDE["height"]))
    page.emulate_media(color_scheme="light")
    return wrong
