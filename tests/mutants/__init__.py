"""Breaks lines that keep somebody out, one at a time, and reports those that no test notices."""
