"""The flags of `trunkline add --manifest`; who gives it need not give a name or an address."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def add_manifest_flags(parser: argparse.ArgumentParser, needed: Sequence[argparse.Action]) -> None:
    """Add them; `needed` are the arguments that a manifest makes superfluous."""

    class Manifest(argparse.Action):
        def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
            namespace.manifest = values
            for action in needed:
                action.required = False

    parser.add_argument(
        "--manifest",
        action=Manifest,
        metavar="PATH|URL",
        help="add what a server.json or plugin.json describes; its command is shown, and nothing is run",
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="answer what a manifest asks")
    parser.add_argument(
        "--package", default="", metavar="NAME", help="which of a manifest's packages, such as npm or 2"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="agree to the command that a manifest wants to run")
