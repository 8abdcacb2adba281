"""Tools found for a prompt: by their words, with scores and reasons; nothing, when nothing fits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trunkline import Tool
from trunkline.search.finder import Finder
from trunkline.search.text import ToolText
from trunkline.search.usage import Usage
from trunkline.search.vectors import open_vectors

TOOLS = [
    Tool("createPullRequest", "Open a PR on a repository.", server="github"),
    Tool("list_issues", "List the issues of a repository.", server="github"),
    Tool("send_email", "Send a message to people.", server="mail"),
    Tool("write_file", "Write text to a file.", server="files"),
    Tool("get_forecast", "Weather forecast for a city.", server="weather"),
]


class TinyModel:
    """Stands for a model or a remote service: it knows two meanings."""

    model = "tiny"

    async def embed(self, texts: Sequence[str], *, query: bool) -> Sequence[Sequence[float]]:
        return [[sum(word in text.lower() for word in words) for words in MEANINGS] for text in texts]


MEANINGS = (("weather", "umbrella", "rain"), ("issue", "bug", "repository"))


async def main() -> None:
    usage = Usage()
    finder = Finder(usage=usage)
    for tool in TOOLS:
        finder.add(ToolText.of(tool))

    print("A prompt, the tools that fit, and why:")
    for hit in finder.search("Create a PR to fix the bug in the login flow", limit=2):
        print(f"  {hit.score:.2f} {hit.key}: {', '.join(reason.word for reason in hit.reasons)}")

    print("Every step of a longer prompt finds its tool:")
    task = "Get the weather forecast for Oslo, write it to a text file and send a message about it to Ann"
    print(f"  {', '.join(sorted(hit.key for hit in finder.search(task)))}")

    print("When nothing fits, nothing is found:")
    print(f"  {finder.search('transpose the saxophone part')}")

    print("What served before comes first among equals:")
    finder.add(ToolText.of(Tool("send_email", "Send a message to people.", server="zmail")))
    usage.record("zmail/send_email", ok=True)
    print(f"  {finder.search('send a message')[0].key}")

    print("By meaning, once a model has read the tools:")
    async with open_vectors(TinyModel()) as vectors:
        finder = Finder(strategy="semantic", vectors=vectors)
        for tool in TOOLS:
            finder.add(ToolText.of(tool))
        await vectors.settled()
        print(f"  {(await finder.find('do I need an umbrella'))[0].key}")


if __name__ == "__main__":
    asyncio.run(main())
