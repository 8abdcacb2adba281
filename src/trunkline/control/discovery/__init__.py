"""Every tool with its category, safety, version and figures: the seed's discovery."""
