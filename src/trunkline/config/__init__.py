"""What Trunkline can be told: options, once, and reading them from files, environment and flags."""
