"""Servers that describe themselves: their manifests, what they need to run, and the sources they come from."""
