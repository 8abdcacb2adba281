"""What a database does for the store: run statements, one by one or as one change. There are two that can."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

Value = str | int | float | bytes | None
Row = tuple[Any, ...]


class Session(Protocol):
    """Runs statements. They are written once for both engines: `?` for values, and only what both understand."""

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run a statement, and give what it returns. Raises `StoreError`."""
        ...


class Engine(Session, Protocol):
    """A database; a statement outside `transaction` stands for itself."""

    types: dict[str, str]
    """What `{bytes}` and `{serial}` in the schema are called here."""

    def transaction(self) -> AbstractAsyncContextManager[Session]:
        """All statements of the body or none; whoever begins first is finished before the next, in any process."""
        ...

    async def close(self) -> None:
        """Let go of the database."""
        ...
