"""Questions that servers ask in the middle of calls, between callers and servers of either era."""
