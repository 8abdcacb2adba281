"""Trunkline between servers and clients that others wrote. `make .tools/done` installs them."""
