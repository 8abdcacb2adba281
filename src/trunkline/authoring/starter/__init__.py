"""The beginning of a server of one's own: a small project that runs, and has a test that passes."""
