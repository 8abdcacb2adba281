"""Callers who search instead of reading a long list, and callers of a profile, through the gateway."""
