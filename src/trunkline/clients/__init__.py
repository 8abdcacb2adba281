"""Other MCP clients' configurations: where they are, what servers they name, how Trunkline is written into them."""
