"""Examples for the help of every command, and a layout that leaves them as they are written."""

from __future__ import annotations

import argparse
from typing import Any, cast

EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": (
        "trunkline up                                 the servers of trunkline.toml; without one, two to play with",
        "trunkline up --config ~/.cursor/mcp.json     those of another client's file, as it is",
        "trunkline up --port 9000 --expose search     any option of [gateway] is a flag",
    ),
    "list": ("trunkline list", "trunkline list --format json"),
    "servers": (
        "trunkline servers                            every server: whether it works, and if not, why not",
        "trunkline servers --status connected         those that can be used now; also failed, or a state",
        "trunkline servers --category file-system     those with tools of this kind",
        "trunkline servers --detailed                 also how calls went, if the gateway runs",
    ),
    "discover": (
        "trunkline discover                           what each server offers, and what is new since the last time",
        "trunkline discover --server github           of one server alone",
        "trunkline discover --infer-annotations       also what the words of each tool say of it, and why",
    ),
    "tools": (
        'trunkline tools --search "read file"         those whose name or description has all these words',
        "trunkline tools --server notes --annotations",
        "trunkline tools --safety dangerous           those to be careful with",
        "trunkline tools --tokens                     what they take of a model's context",
        "trunkline tools --changes                    what is new since they were first seen",
    ),
    "search": (
        'trunkline search "what time is it"',
        'trunkline search "read a file" "send a mail" --limit 3    the best for each step',
    ),
    "exec": (
        "trunkline exec time__get_current_time timezone=UTC",
        "trunkline exec time get_current_time timezone=UTC         the server first, then its own name of the tool",
        'trunkline exec notes add_note --params \'{"title": "a", "text": "b"}\'',
    ),
    "test": (
        "trunkline test                               every server",
        "trunkline test github --timeout 60           one of them, for a minute at most",
    ),
    "add": (
        "trunkline add time uvx mcp-server-time",
        'trunkline add data-api "node ./servers/data.js"     the command in one',
        "trunkline add --env TOKEN=${env:GITHUB_TOKEN} github npx -y @modelcontextprotocol/server-github",
        'trunkline add docs https://mcp.example.org/mcp --header "Authorization: Bearer ${env:DOCS_TOKEN}"',
        "trunkline add --manifest ./plugins/github",
    ),
    "remove": ("trunkline remove time", "trunkline remove time --yes     without being asked"),
    "annotate": (
        "trunkline annotate                                     every tool, with what is known of it",
        "trunkline annotate --tool delete_note --destructive    what you know better",
        "trunkline annotate --validate                          what contradicts itself",
    ),
    "registry": (
        "trunkline registry search git          servers to install",
        "trunkline registry info github         one of them: its command, and what it wants to know",
        "trunkline registry list --category databases",
    ),
    "bench": ("trunkline bench search --tools tools.jsonl --queries queries.jsonl --out ranked.jsonl",),
    "secret": (
        "trunkline secret set GITHUB_TOKEN      asks for it; write ${secret:GITHUB_TOKEN} in the configuration",
        "trunkline secret list                  names, never values",
        "trunkline secret remove GITHUB_TOKEN",
    ),
}
_HEAD = "examples:"


class Help(argparse.HelpFormatter):
    """Fills lines, but for examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_HEAD):
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


def add_examples(commands: Any) -> None:
    """Give every command that has none its examples."""
    for name, command in cast("dict[str, argparse.ArgumentParser]", commands.choices).items():
        command.formatter_class = Help
        if not command.epilog and name in EXAMPLES:
            command.epilog = "\n".join((_HEAD, *(f"  {line}" for line in EXAMPLES[name])))
