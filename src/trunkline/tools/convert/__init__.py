"""Tools in the formats of others: MCP definitions, Python functions, and the model vendors; what is lost is said."""
