"""Misbehaving MCP servers: the bad luck that the gateway is tested against."""
