"""Servers of one's own: functions, agents and workflows offered over MCP, or mounted in a hub of the same process."""
