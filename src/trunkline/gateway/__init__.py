"""The HTTP face: MCP for callers of both eras on one endpoint, and health for operators."""
