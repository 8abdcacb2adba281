"""Calls that go on by themselves, whichever era their callers and their servers speak."""
