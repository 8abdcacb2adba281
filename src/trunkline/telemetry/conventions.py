"""The names in spans: those of OpenTelemetry's conventions for MCP and generative AI, and ours where there are none.

The conventions are in development; when a name of theirs changes, it is changed here.
"""

from __future__ import annotations

METHOD = "mcp.method.name"
PROTOCOL_VERSION = "mcp.protocol.version"
TOOL = "gen_ai.tool.name"
PROMPT = "gen_ai.prompt.name"
RESOURCE = "mcp.resource.uri"
OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
ARGUMENTS = "gen_ai.tool.call.arguments"
ERROR = "error.type"
TOOL_ERROR = "tool_error"
CODE = "rpc.response.status_code"
NETWORK = "network.transport"

SERVER = "trunkline.server"
OUTCOME = "trunkline.outcome"
PROFILE = "trunkline.profile"
PROGRAM = "trunkline.program"
RECORD = "trunkline.call.id"
STAGE = "trunkline.stage."
"""Before the name of what a stage noted, which is an event."""
NOTE = "trunkline.note"

TRANSPORTS = {"stdio": "pipe", "http": "tcp", "sse": "tcp", "local": "inproc"}
TARGETS = {"tools/call": TOOL, "prompts/get": PROMPT, "resources/read": RESOURCE}
"""Which name says what a method is about."""
