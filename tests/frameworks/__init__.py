"""Agents of other frameworks, with models that run here: each example of the documentation, as its file stands."""
