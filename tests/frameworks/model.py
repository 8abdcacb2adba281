"""A model that runs here: it speaks like a vendor's, does what a script says, and refuses what the vendor would."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.frameworks.anthropic_dialect import Messages
from tests.frameworks.dialect import Ask, Dialect, Json, Told
from tests.frameworks.gemini_dialect import GenerateContent
from tests.frameworks.openai_dialect import Completions, Responses

Turn = Mapping[str, Json]
"""Calls that the model asks for at once: arguments by the beginning of a tool's name."""


class Model:
    """Asks for calls, turn by turn, then quotes what it was told, if that was short."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.url = ""
        self.refusals: list[str] = []
        """What was wrong with requests."""
        self.tools: dict[str, Json] = {}
        """The schemas of the last request."""
        self.told: list[Told] = []
        """What the tools answered."""
        self.dialect: Dialect | None = None
        """How it was spoken to."""
        self._turns = list(turns)
        self._ids = (f"call_{number}" for number in itertools.count(1))
        self._asked: list[str] = []

    async def answer(self, dialect: Dialect, request: web.Request) -> web.Response:
        try:
            return web.json_response(self._answer(dialect, await request.json()))
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            self.refusals.append(f"{type(error).__name__}: {error}")
            return web.json_response({"error": {"message": self.refusals[-1]}}, status=400)

    def _answer(self, dialect: Dialect, body: Json) -> Json:
        self.dialect, self.tools, self.told = dialect, dialect.tools(body), dialect.told(body)
        for name, schema in self.tools.items():
            assert re.fullmatch("[a-zA-Z_][a-zA-Z0-9_-]{0,63}", name), name
            assert schema["type"] == "object", schema
        assert [told.id for told in self.told] == self._asked
        if not self._turns:
            short = [told.text for told in self.told if 0 < len(told.text) < 200]
            return dialect.say("\n- ".join(["I was told:", *short]))
        turn = self._turns.pop(0)
        asks = [Ask(next(self._ids), self._named(start), arguments) for start, arguments in turn.items()]
        self._asked += [ask.id for ask in asks]
        return dialect.ask(asks)

    def _named(self, start: str) -> str:
        (name,) = [name for name in self.tools if name.startswith(start)]
        return name


@asynccontextmanager
async def open_model(turns: Sequence[Turn]) -> AsyncGenerator[Model]:
    """A model at an address of its own."""
    model = Model(turns)
    app = web.Application()
    for dialect in (Messages(), Responses(), Completions(), GenerateContent()):
        app.router.add_post(dialect.path, _handler(model, dialect))
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        model.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield model
    finally:
        await runner.cleanup()


def _handler(model: Model, dialect: Dialect) -> Any:
    async def handle(request: web.Request) -> web.Response:
        return await model.answer(dialect, request)

    return handle
