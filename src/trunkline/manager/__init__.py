"""The hub under the names of ART's MCP system: each class a face, with no mechanism of its own."""
