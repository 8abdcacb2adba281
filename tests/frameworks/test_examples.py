"""Every example of the frameworks, against servers that are real and a model that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.model import Model, Turn, open_model
from tests.frameworks.parts import EXAMPLES, PAGES, run_example, servers, write_toml
from tests.harness import Start, gateway

SDKS = {
    "with_anthropic": "/v1/messages",
    "with_openai": "/v1/responses",
    "with_openai_chat": "/v1/chat/completions",
    "with_google": "/v1/models/{model}",
}
CLIENTS = {
    "with_pydantic_ai": "/v1/responses",
    "with_langchain": "/v1/responses",
    "with_openai_agents": "/v1/responses",
}
PAGES_OF = {
    "with_anthropic": "anthropic",
    "with_openai": "openai",
    "with_openai_chat": "openai",
    "with_google": "google",
    "with_pydantic_ai": "pydantic-ai",
    "with_langchain": "langchain",
    "with_openai_agents": "openai-agents",
}
QUESTION = "Have we a bowler? If not, note that I want one, and show it to me."
LOOK: Turn = {"shop__get_stock": {"hat": "bowler"}}
NOTE = {"title": "bowler", "text": "Buy one."}
DRAW = {"shop__draw_hat": {"hat": "bowler"}}
CLOSE: Turn = {"shop__close_shop": {}}
LISTED: list[Turn] = [LOOK, {"notes__add_note": NOTE, **DRAW}, CLOSE]
SEARCHED: list[Turn] = [
    LOOK,
    {"search_tools": {"query": "write a note"}},
    {"call_tool": {"name": "notes__add_note", "arguments": NOTE}, **DRAW},
    CLOSE,
]


def page_of(name: str) -> str:
    return (PAGES / f"{PAGES_OF[name]}.md").read_text(encoding="utf-8")


def check(model: Model, path: str) -> None:
    assert not model.refusals
    assert model.dialect is not None
    assert model.dialect.path == path
    looked, *found, noted, drawn, closed = model.told
    assert "There is no hat 'bowler'." in looked.text
    assert all("notes__add_note" in told.text for told in found)
    assert noted.text == "Kept 'bowler'."
    assert "Server 'shop' exited with code 1" in closed.text
    assert [told for told in model.told if told.failed] == ([looked, closed] if model.dialect.tells_failure else [])
    assert [told for told in model.told if told.images] == ([drawn] if model.dialect.shows_pictures else [])


@pytest.mark.slow
@pytest.mark.parametrize("name", SDKS)
async def test_a_vendors_sdk_uses_the_hub(name: str, sdk_server: Start, tmp_path: Path) -> None:
    write_toml(tmp_path, sdk_server)

    async with open_model(LISTED) as model:
        printed = await run_example(name, QUESTION, tmp_path, model.url)

    check(model, SDKS[name])
    assert {name.partition("__")[0] for name in model.tools} == {"notes", "shop"}
    assert "\n".join(printed) in page_of(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_framework_uses_the_gateway(name: str, sdk_server: Start, tmp_path: Path) -> None:
    listed = {"expose": "search", "pinned": ["shop__*"]}
    async with (
        gateway(tmp_path / "home", servers(tmp_path, sdk_server), ready=30, **listed) as opened,
        open_model(SEARCHED) as model,
    ):
        printed = await run_example(name, QUESTION, tmp_path, model.url, opened.url)

    check(model, CLIENTS[name])
    assert {name.partition("__")[0] for name in model.tools} == {"shop", "search_tools", "call_tool"}
    assert "\n".join(printed) in page_of(name)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_is_run_and_stands_on_its_page(example: Path) -> None:
    assert example.stem in SDKS.keys() | CLIENTS.keys()
    assert example.read_text(encoding="utf-8").strip() in page_of(example.stem)
