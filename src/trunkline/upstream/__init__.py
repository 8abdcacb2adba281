"""Live connections to servers: subprocesses and remote ones, in both eras."""
