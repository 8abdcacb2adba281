"""Finding the tools that a prompt needs, in process and offline."""
