"""Choosing one of several equal servers: who is next, who is loaded, who is well."""
