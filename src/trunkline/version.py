"""The version, by itself: whoever names it need not know the whole package."""

__version__ = "0.1.0"
"""What is installed, such as `0.1.0`."""
