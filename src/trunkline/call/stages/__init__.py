"""The stages of the data path, in the hub's order; each is called what the configuration calls it."""
