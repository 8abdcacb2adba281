"""Why a program that could be started did not become a server."""

from __future__ import annotations

import re
from pathlib import Path

from trunkline.clients.secret import shown_command
from trunkline.config.server import ServerSpec
from trunkline.doctor.finding import Finding, Severity
from trunkline.doctor.watch import Witness
from trunkline.doctor.words import cause_of, excerpt, is_downloading, listens, meaning_of, without_chatter
from trunkline.errors import TrunklineError, UpstreamTimeoutError
from trunkline.upstream.download import runner_of

_EXECUTION = re.compile(r"Exec format error|Errno 8\b")
_REVISION = re.compile(r"does not speak|; we do not\b")


def explain_start(spec: ServerSpec, error: TrunklineError, seen: Witness) -> Finding:
    """The likeliest reason, from what it said, what it did and how it ended."""
    text = error.message
    if _REVISION.search(text):
        return wrong_revision(spec, text)
    if seen.process is None:
        return _not_executed(spec, text)
    if isinstance(error.__cause__, TimeoutError | UpstreamTimeoutError):
        return _silent(spec, seen)
    meant = meaning_of(f"{seen.stderr}\n{seen.stray}", spec)
    if meant is not None:
        return meant
    if re.search(r"exited with code|was killed by signal|closed its output|closed its input", text):
        return _ended(spec, text, seen)
    if seen.stray:
        return prints(spec, seen, Severity.ERROR)
    advice = "Read its documentation: it may want an argument to speak MCP on its standard input and output."
    return Finding("TL206", _with_words(_bare(text, spec), spec, seen), advice, server=spec.name)


def prints(spec: ServerSpec, seen: Witness, severity: Severity) -> Finding:
    """Something else than MCP is on its standard output."""
    passed = " Trunkline passes over it; other clients may not." if severity is Severity.WARNING else ""
    return Finding(
        "TL207",
        f"its standard output has: {excerpt(seen.stray, spec)}.{passed}",
        "Let it print to standard error instead, and switch off banners: `print(…, file=sys.stderr)` in Python, "
        "`console.error` in Node. A shell's start-up file may print as well.",
        severity=severity,
        server=spec.name,
    )


def wrong_revision(spec: ServerSpec, text: str) -> Finding:
    """The server and Trunkline have no revision of MCP in common."""
    advice = "Update the server."
    if spec.era != "auto":
        advice = f'Leave out era = "{spec.era}": then Trunkline finds out what the server speaks.'
    return Finding("TL401", _bare(text, spec), advice, server=spec.name)


def _not_executed(spec: ServerSpec, text: str) -> Finding:
    place = Path(spec.command)
    if _EXECUTION.search(text):
        advice = "Give it a first line such as `#!/usr/bin/env python3`, or a build for this machine."
        return Finding("TL204", f"{spec.command!r} is no program of this system.", advice, server=spec.name)
    interpreter = _interpreter(place)
    if interpreter and "No such file" in text:
        advice = "Install it, or correct the first line of the file."
        seen = f"{spec.command!r} wants {interpreter!r}, which is not there."
        return Finding("TL201", seen, advice, server=spec.name)
    return Finding("TL204", _bare(text, spec), "Run it by hand, and see what it says.", server=spec.name)


def _interpreter(place: Path) -> str:
    try:
        with place.open("rb") as file:
            first = file.readline(256)
    except OSError:
        return ""
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    return words[0] if words else ""


def _ended(spec: ServerSpec, text: str, seen: Witness) -> Finding:
    found = re.search(r"exited with code -?\d+|was killed by signal \d+|closed its (?:out|in)put", text)
    how = found[0] if found else "ended"
    process = seen.process
    if how.startswith("closed") and process is not None and process.exited.done() and process.exited.result() > 0:
        how = f"exited with code {process.exited.result()}"
    silent = not without_chatter(seen.stderr) and not seen.stray
    advice = "Run it by hand and see." if silent else "Do what it says, or run it by hand and see."
    if how.endswith("code 0"):
        advice = (
            "It ends as if it were done: it may want an argument, such as `stdio` or `serve`, to stay and speak MCP."
        )
    elif "signal 9" in how:
        advice = "It was killed from outside: the machine may be short of memory."
    if silent:
        logged = runner_of(spec)[0] in ("npx", "npm") and bool(seen.stderr)
        advice = f"It said nothing. {advice}{' npm writes down what it does: ~/.npm/_logs' if logged else ''}"
    return Finding(
        "TL206",
        _with_words(f"it {how} right after its start.", spec, seen),
        advice,
        server=spec.name,
        command=shown_command({"command": spec.command, "args": list(spec.args)}),
    )


def _silent(spec: ServerSpec, seen: Witness) -> Finding:
    words = f"{seen.stderr}\n{seen.stray}"
    waited = f"no answer within {spec.start_timeout:g} s."
    runner = bool(runner_of(spec)[0])
    # While a runner fetches, it has no program of its own below it yet; the server that it starts later may use the
    # network for its own ends.
    fetching = seen.activity.connections > 0 and seen.activity.children == 0
    said_so = is_downloading(words, runner=runner)
    if said_so or fetching:
        doing = "It is fetching or installing something" if said_so else "It has the network busy"
        return Finding(
            "TL209",
            _with_words(f"{waited} {doing}.", spec, seen),
            "A gateway waits for it. To see how far it is, run it once by hand, until it waits for input; or give it "
            "longer here: --timeout.",
            server=spec.name,
            command=shown_command({"command": spec.command, "args": list(spec.args)}),
        )
    if listens(words):
        advice = (
            "It waits for HTTP. Start it yourself and write its address as `url`; or give it the argument for stdio."
        )
        return Finding("TL208", _with_words(waited, spec, seen), advice, server=spec.name)
    if seen.stray:
        return prints(spec, seen, Severity.ERROR)
    meant = meaning_of(words, spec)
    if meant is not None:
        return meant
    advice = "It may wait for something: a login, a file, another service, or an argument that makes it speak MCP."
    return Finding("TL208", _with_words(waited, spec, seen), advice, server=spec.name)


def _with_words(text: str, spec: ServerSpec, seen: Witness) -> str:
    said = without_chatter(seen.stderr) or seen.stray
    return f"{text} It said: {excerpt(cause_of(said) or said, spec)}" if said else text


def _bare(text: str, spec: ServerSpec) -> str:
    """A message without the server's name, which stands beside it anyway."""
    return re.sub(rf"^Server {re.escape(repr(spec.name))} ", "it ", text)
