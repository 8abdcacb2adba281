"""Calls that become tasks: whose they are, and one era's tasks in the words of the other."""
