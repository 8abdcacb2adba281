"""Vectors from a service: any that speaks as OpenAI's `/v1/embeddings` does, here or remote."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from trunkline.errors import ProtocolError, UnreachableError
from trunkline.upstream.http1 import HttpClient, request_bytes, split_url

_LIMIT = 32 * 2**20
_PATIENCE = 30.0


class RemoteEmbedder:
    """Asks a service for vectors. Texts of tools, and of what is searched for, go to it."""

    def __init__(self, url: str, model: str, token: str = "") -> None:
        self._origin, self._target = split_url(url)
        self._name = model
        self._headers = {
            b"host": self._origin.authority.encode(),
            b"content-type": b"application/json",
            b"accept": b"application/json",
        }
        if token:
            self._headers[b"authorization"] = b"Bearer " + token.encode()
        self._client = HttpClient()

    @property
    def model(self) -> str:
        """Which model, and whose."""
        return f"{self._name} at {self._origin.authority}"

    async def embed(self, texts: Sequence[str], *, query: bool) -> list[list[float]]:
        """One vector for each text."""
        body = msgspec.json.encode({"model": self._name, "input": list(texts)})
        request = request_bytes(b"POST", self._target, self._headers, body)
        async with asyncio.timeout(_PATIENCE):
            response, _ = await self._client.send(self._origin, request, limit=_LIMIT)
            await response.ready()
        if response.status != 200:
            raise UnreachableError(f"{self._origin.authority} answered {response.status} instead of vectors.")
        try:
            answer = msgspec.json.decode(response.body(), type=_Answer)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"{self._origin.authority} did not answer with vectors: {error}.") from error
        return [row.embedding for row in sorted(answer.data, key=lambda row: row.index)]

    def close(self) -> None:
        """Hang up."""
        self._client.close()


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _Answer(msgspec.Struct):
    data: list[_Row]
    usage: Any = None
