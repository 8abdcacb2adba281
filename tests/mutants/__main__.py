"""`python -m tests.mutants [WORD …]`: break what the words name, or everything, and say what no test notices."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest

from tests.mutants.run import Run
from tests.mutants.targets import BAR, mutants, tests_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutants whose file or name has one of these in it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="how many run at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="tests tried on a mutant, in seconds (%(default)s)")
    parser.add_argument(
        "--part", default="1/1", help="only a part of them, such as 2/5, for a quick look (%(default)s)"
    )
    parser.add_argument("--keep", type=Path, help="a file that remembers which test runs which line, for the next run")
    parser.add_argument("--tests", nargs="+", help="the tests that may notice, if not those that know the rules")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    found = mutants(asked.words)[part - 1 :: parts]
    run = Run(found, jobs=asked.jobs, seconds=asked.seconds, keep=asked.keep)
    flags = ["-s", "-p", "no:cacheprovider", "--assert=plain"]
    pytest.main([*flags, *(asked.tests or tests_of(found))], plugins=[run])
    if not run.verdicts:
        return 2
    share = run.report()
    return 0 if share >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
