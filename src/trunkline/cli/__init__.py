"""The `trunkline` command: one module for each family of subcommands."""
