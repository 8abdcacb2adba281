"""`python -m trunkline` is the `trunkline` command."""

from trunkline.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
