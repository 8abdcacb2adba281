"""A server over stdio: one tool fails, one has a name no vendor takes and answers with a picture, one ends it all."""

from __future__ import annotations

import os

from trunkline import Image, ToolServer

shop = ToolServer("shop", "Sells hats.")


@shop.tool
def get_stock(hat: str) -> int:
    """How many of a hat there are."""
    raise ValueError(f"There is no hat {hat!r}.")


@shop.tool(name="draw.hat")
def draw(hat: str = "fedora", sizes: list[int] | None = None) -> Image:
    """A picture of a hat."""
    return Image(b"\x89PNG\xfb\xff")


@shop.tool
def close_shop() -> None:
    """Close it for good."""
    os._exit(1)


shop.run("stdio")
