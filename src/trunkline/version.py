"""The version, by itself: whoever names it need not know the whole package."""

__version__ = "0.1.0"
