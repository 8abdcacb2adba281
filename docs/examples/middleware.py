"""Tools behind middleware: checked, agreed to, limited in time, and tried again where that does no harm."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any

from trunkline import (
    Annotations,
    CallNext,
    Elicitation,
    Tool,
    ToolContext,
    ToolIntegrationManager,
    ToolResult,
    confirmation_middleware,
    create_retry_middleware,
    create_timeout_middleware,
    logging_middleware,
    validation_middleware,
)
from trunkline.errors import InvalidArgumentsError, UnreachableError

SKU = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
failures = iter([UnreachableError("The warehouse does not answer.")])


async def get_product(params: dict[str, Any]) -> dict[str, Any]:
    """Fails once, as servers do."""
    for failure in failures:
        raise failure
    return {"sku": params["sku"], "stock": 42}


def delete_product(params: dict[str, Any]) -> str:
    """A plain function: it runs in a thread."""
    return f"{params['sku']} is gone."


def person(request: Elicitation) -> object:
    """Stands for a dialog on a screen."""
    print(f"? {request.message}")
    return True


async def metrics(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
    """A middleware of one's own."""
    begin = time.perf_counter()
    result = await call_next()
    print(f"  attempt {context.attempt} of {tool.name} took {time.perf_counter() - begin:.1f}s")
    return result


async def main() -> None:
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s: %(message)s")
    manager = ToolIntegrationManager().set_elicitation_handler(person)
    (
        manager.use(logging_middleware)
        .use(validation_middleware)
        .use(confirmation_middleware)
        .use(create_timeout_middleware(30.0))
        .use(create_retry_middleware(3, 0.01))
        .use(metrics)
    )
    manager.register_tool(
        Tool("getProduct", input_schema=SKU, annotations=Annotations(read_only_hint=True), execute=get_product)
    )
    manager.register_tool(
        Tool("deleteProduct", input_schema=SKU, annotations=Annotations(destructive_hint=True), execute=delete_product)
    )

    print((await manager.execute_tool("getProduct", {"sku": "W-100"})).structured)
    print((await manager.execute_tool("deleteProduct", {"sku": "W-100"})).text)
    try:
        await manager.execute_tool("getProduct", {"sku": 100}, ToolContext(user="ann"))
    except InvalidArgumentsError as error:
        print(error)


if __name__ == "__main__":
    asyncio.run(main())
