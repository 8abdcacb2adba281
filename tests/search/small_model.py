"""A model that knows a few words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trunkline.errors import UnreachableError

MEANINGS = (
    ("weather", "forecast", "umbrella", "rain"),
    ("mail", "message", "letter"),
    ("file", "document"),
    ("github", "code"),
)


class Model:
    """Counts the words it knows; it can be held up, and it can fail."""

    def __init__(self, model: str = "words") -> None:
        self.model = model
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failing = False

    async def embed(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
        await self.gate.wait()
        if self.failing:
            raise UnreachableError("The model is away.")
        self.asked += texts
        return [[-0.1 + sum(text.lower().count(word) for word in words) for words in MEANINGS] for text in texts]
