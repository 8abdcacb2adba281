"""Where servers are found before they are configured: the built-in catalogue, registries, and entries of one's own."""
