"""Small servers to play with when nothing is configured; they are ordinary MCP servers, built on the official SDK."""
