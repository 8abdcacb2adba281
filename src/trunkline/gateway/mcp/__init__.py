"""The MCP endpoint: callers of both eras, their sessions, streams and parked calls."""
