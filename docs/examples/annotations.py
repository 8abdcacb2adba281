"""What can be told about tools from their words, and what follows from it."""

import asyncio

from trunkline import (
    create_annotated_tool,
    filter_tools_by_annotations,
    get_annotation_summary,
    get_tool_safety_level,
    is_safe_to_retry,
    requires_confirmation,
)
from trunkline.tools.annotations import effective, from_mcp
from trunkline.tools.infer import infer


async def main() -> None:
    tools = [
        create_annotated_tool("getUser", "Get a user by id"),
        create_annotated_tool("updateUser", "Update a user's address"),
        create_annotated_tool("deleteUser", "Delete a user account permanently"),
    ]
    for tool in tools:
        print(tool.name, get_tool_safety_level(tool), get_annotation_summary(tool.annotations))

    delete = tools[-1]
    print("ask first:", requires_confirmation(delete), "- retry:", is_safe_to_retry(delete))

    safe = filter_tools_by_annotations(tools, lambda hints: hints.read_only_hint is True)
    print("safe:", [tool.name for tool in safe])

    # Why: every inference carries the words it was told by.
    found = infer("fetch_inbox", "Fetch unread mail and delete it on the server")
    print(found.effect.name, found.confidence, *found.evidence)

    # The server's own hints come first; inference fills the gaps.
    declared = from_mcp({"title": "Drop cache", "destructiveHint": False})
    print(get_annotation_summary(effective(declared, "drop_cache", "Drop the cache")))


asyncio.run(main())
