"""Tests, each a sentence about behaviour."""
