"""Who calls, what is theirs, and what they may: people, keys, threads, limits."""
