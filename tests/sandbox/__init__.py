"""Tests of programs over tools."""
