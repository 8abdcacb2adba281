"""Questions to a person in the middle of a call: asked in one line, answered by whoever is there."""

from __future__ import annotations

import asyncio

from trunkline import Elicitation, ElicitationManager, ElicitationProtocolAdapter, FormField, SelectOption
from trunkline.questions.events import ElicitationRequested, ElicitationResponded
from trunkline.questions.kinds import ConfirmationRequest, FormRequest, SecretRequest, SelectRequest
from trunkline.questions.manager import answered_elsewhere


async def person(request: Elicitation) -> object:
    """Stands for a dialog on a screen; at a terminal, `TerminalHandler` asks."""
    match request:
        case ConfirmationRequest():
            return "report" in request.message
        case SelectRequest():
            return request.options[0].value
        case FormRequest():
            return {"region": "eu-west-1", "replicas": 2}
        case SecretRequest():
            return "hunter2"
        case _:
            return None


async def main() -> None:
    manager = ElicitationManager(handler=person, default_timeout=5)
    manager.on(ElicitationRequested, lambda event: print(f"asked: {event.request.message}"))
    manager.on(ElicitationResponded, lambda event: print(f"  event: {event.response.value}"))

    print(await manager.confirm("Delete report.csv?", tool_name="delete_file", confirm_label="Yes, delete"))
    print(await manager.select("Where?", [SelectOption("dev", "Development"), SelectOption("prod", "Production")]))
    regions = (SelectOption("us-east-1"), SelectOption("eu-west-1"))
    fields = [
        FormField("region", "Region", "select", required=True, options=regions),
        FormField("replicas", type="integer"),
    ]
    print(await manager.form("Configure the deployment:", fields))

    key = await manager.get_secret("API key:")
    print(f"The key prints as {key}, and has {len(key.reveal()) if key else 0} characters.")

    print("Nobody answers, and that is no yes:")
    late = ConfirmationRequest("Drop the table?", default_value=True, timeout=0.01)
    response = await manager.request(late, handler=answered_elsewhere)
    print(f"  confirmed {response.confirmed}, timed out {response.timed_out}")

    print("A server asks in MCP's words:")
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    params = {"message": "Send the report?", "requestedSchema": schema}
    adapter = ElicitationProtocolAdapter(manager=manager)
    print(await adapter.handle_message({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}))


if __name__ == "__main__":
    asyncio.run(main())
