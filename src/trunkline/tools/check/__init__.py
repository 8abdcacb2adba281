"""Arguments held against JSON Schemas that anybody may have written, in bounded time."""
