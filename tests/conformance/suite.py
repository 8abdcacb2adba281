"""Runs the official conformance suite against a server, and says where two runs differ.

By hand: `python tests/conformance/suite.py URL VERSION`. The suite is expected in `.tools`, where `make .tools/done`
puts it, and node beside this Python.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUITE = Path("node_modules/@modelcontextprotocol/conformance/dist/index.js")
TIMEOUT = 300.0
"""Seconds a whole run may take; a healthy one takes less than five."""

MISSING = "missing"
BADNESS = {"SUCCESS": 0, "INFO": 1, "SKIPPED": 1, MISSING: 1, "WARNING": 2, "FAILURE": 3}
"""How bad a status is. A remark that is not made again is no loss; a success that is not repeated is one."""

Statuses = Mapping[str, Mapping[str, str]]
"""The status of every check, by scenario and check."""


@dataclass(frozen=True)
class Check:
    """One thing the suite looked at in a scenario."""

    label: str
    """The id of the check, made unique within its scenario."""
    status: str
    message: str


def run(url: str, spec_version: str, *, suite_dir: Path, node: Path, output: Path) -> dict[str, dict[str, str]]:
    """Run all server scenarios of a version and give the status of every check, by scenario and check.

    Raises `subprocess.TimeoutExpired` after `TIMEOUT`, and `RuntimeError` when the suite itself does not run.
    """
    examined = examine(url, spec_version, suite_dir=suite_dir, node=node, output=output)
    return {scenario: {check.label: check.status for check in checks} for scenario, checks in examined.items()}


def differences(direct: Statuses, through: Statuses) -> list[str]:
    """Say in a sentence each what was better directly than through; an empty list is what one hopes for."""
    sentences: list[str] = []
    for scenario in sorted(direct.keys() | through.keys()):
        if scenario not in through:
            sentences.append(f"Scenario {scenario} ran directly, but not through.")
            continue
        before, after = direct.get(scenario, {}), through[scenario]
        for label in [*before, *(label for label in after if label not in before)]:
            was, became = before.get(label, MISSING), after.get(label, MISSING)
            if BADNESS[became] > BADNESS[was]:
                sentences.append(f"Check {label} of {scenario} is {was} directly, but {became} through.")
    return sentences


def examine(url: str, spec_version: str, *, suite_dir: Path, node: Path, output: Path) -> dict[str, list[Check]]:
    """Run the suite and read what it wrote about each scenario, in the order it ran them."""
    output.mkdir(parents=True, exist_ok=True)
    results = Path(tempfile.mkdtemp(prefix=f"{spec_version}-", dir=output))
    command = [str(node), str(suite_dir / SUITE), "server", "--url", url, "--suite", "all"]
    command += ["--spec-version", spec_version, "--output-dir", str(results)]
    # The suite ends with 1 when any check failed, so its exit code says nothing that the results do not.
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    scenarios = {scenario_of(path): path for path in sorted(results.iterdir(), key=lambda path: path.stat().st_ctime)}
    if not scenarios:
        raise RuntimeError(f"The suite wrote no results. It said: {ended.stderr[-2000:] or ended.stdout[-2000:]}")
    return {scenario: read(path / "checks.json") for scenario, path in scenarios.items()}


def scenario_of(results: Path) -> str:
    """The scenario that a directory like `server-ping-2026-11-15T10-11-12-345Z` is about."""
    return re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", results.name)


def read(path: Path) -> list[Check]:
    if not path.exists():
        # The suite makes the directory first and writes last: the scenario crashed in between.
        return [Check("scenario-crashed", "FAILURE", "The scenario ended without results.")]
    return labelled(json.loads(path.read_text(encoding="utf-8")))


def labelled(checks: Iterable[Mapping[str, Any]]) -> list[Check]:
    """Give checks that share an id their name too, and a number if even that is shared."""
    checks = list(checks)
    ids = Counter(check["id"] for check in checks)
    seen: Counter[str] = Counter()
    labels: list[Check] = []
    for check in checks:
        label = check["id"] if ids[check["id"]] == 1 else f"{check['id']} ({check['name']})"
        seen[label] += 1
        numbered = label if seen[label] == 1 else f"{label} #{seen[label]}"
        labels.append(Check(numbered, check["status"], check.get("errorMessage") or check.get("description", "")))
    return labels


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="address of the server, such as http://127.0.0.1:3901/mcp")
    parser.add_argument("spec_version", help="2025-11-25 or 2026-07-28")
    parser.add_argument("--suite-dir", type=Path, default=Path(__file__).parents[2] / ".tools")
    parser.add_argument("--node", type=Path, default=Path(sys.executable).with_name("node"))
    parser.add_argument("--output", type=Path, default=Path(tempfile.gettempdir(), "conformance"))
    chosen = parser.parse_args()
    examined = examine(
        chosen.url, chosen.spec_version, suite_dir=chosen.suite_dir, node=chosen.node, output=chosen.output
    )
    passed = [scenario for scenario, checks in examined.items() if print_scenario(scenario, checks)]
    print(f"{len(passed)} of {len(examined)} scenarios passed.")
    return 0 if len(passed) == len(examined) else 1


def print_scenario(scenario: str, checks: Iterable[Check]) -> bool:
    """Print a line about a scenario and one about each check that failed or warns; say whether none failed."""
    checks = list(checks)
    counts = Counter(check.status for check in checks)
    mark = "failed" if counts["FAILURE"] else "passed"
    print(f"{mark}  {scenario:<50}", ", ".join(f"{count} {status}" for status, count in counts.items()))
    for check in checks:
        if BADNESS[check.status] >= BADNESS["WARNING"]:
            print(f"        {check.status} {check.label}: {check.message}")
    return not counts["FAILURE"]


if __name__ == "__main__":
    sys.exit(main())
