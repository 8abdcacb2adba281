"""One Python function as a tool for MCP, Anthropic, OpenAI and Gemini, and a server's tool on a round trip."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Literal

from trunkline import (
    Tool,
    create_tool_from_function,
    from_anthropic,
    from_mcp_tool,
    sanitize_tool_name,
    to_anthropic,
    to_gemini,
    to_mcp_tool,
    to_openai,
    validate_tool_name,
)
from trunkline.tools.convert.vendor import batch_convert


@dataclass
class Place:
    city: str
    country: str = "NO"


async def get_forecast(place: Place, unit: Literal["c", "f"] = "c") -> str:
    """Get the forecast of a place.

    Args:
        place: Where to look.
        unit: Of the temperature.
    """
    return f"{place.city}, {place.country}: 4 °{unit.upper()}"


async def main() -> None:
    # A function becomes a tool: its types are the schema, its docstring the words.
    tool = create_tool_from_function(get_forecast)
    assert tool.execute is not None
    print(await tool.execute({"place": {"city": "Oslo"}}))
    print(json.dumps(to_mcp_tool(tool, namespace_prefix="weather").value["annotations"]))

    # For a vendor: the value to send, and what did not fit.
    for loss in to_gemini(tool).losses[:2]:
        print("Gemini:", loss)
    print("OpenAI, strict:", len(to_openai(tool, strict=True).losses), "losses")

    # A definition of a server comes back as it was where no loss is reported.
    definition: dict[str, Any] = {
        "name": "find_user",
        "inputSchema": {
            "type": "object",
            "properties": {"id": {"$ref": "#/$defs/Id"}},
            "$defs": {"Id": {"type": "string"}},
        },
        "_meta": {"defer_loading": True, "input_examples": [{"id": "u1"}]},
    }
    sent = to_anthropic(from_mcp_tool(definition).value)
    back = to_mcp_tool(from_anthropic(sent.value).value).value
    print("lossless:", sent.lossless, "- the same again:", back == definition)

    # Names are valid for each vendor, and lead back to one tool each.
    print(validate_tool_name("my tool").errors[0], sanitize_tool_name("my tool"))
    box = batch_convert([Tool("a.b"), Tool("a/b"), Tool("a_b")], to_openai).value
    print({name: tool.name for name, tool in box.by_name.items()})


asyncio.run(main())
