"""Bytes to messages and back: pure, without I/O."""
