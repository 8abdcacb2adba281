"""The client that the official conformance suite starts: it hands the scenario to the tests and ends as they say.

The suite starts a program for every scenario. This one imports next to nothing; `callers.py` does the work.
"""

import json
import os
import socket
import sys

NAMES = ("MCP_CONFORMANCE_SCENARIO", "MCP_CONFORMANCE_PROTOCOL_VERSION", "MCP_CONFORMANCE_CONTEXT")


def main() -> int:
    path, url = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as tests:
        tests.connect(path)
        scenario, version, context = (os.environ.get(name, "") for name in NAMES)
        told = {"url": url, "scenario": scenario, "version": version, "context": json.loads(context or "{}")}
        tests.sendall(json.dumps(told).encode() + b"\n")
        wrong = tests.makefile(encoding="utf-8").read()
    sys.stderr.write(wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
