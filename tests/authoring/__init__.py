"""Servers written with trunkline.authoring, through every door."""
