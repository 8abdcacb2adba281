"""A pytest plugin that collects once, then tries every mutant in a process of its own, forked from this one."""

from __future__ import annotations

import ast
import gc
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NoReturn

import pytest
from hypothesis import settings

from tests.harness import plain_command
from tests.mutants.operators import Mutant
from tests.mutants.targets import BROKEN, SOURCE, equivalents, text_of

NOTICED, HUNG, UNNOTICED, NEVER_RUN = "noticed", "noticed by hanging", "not noticed", "run by no test"
UNTRIED = "could not be tried"
PATIENCE = 6.0
"""Seconds that a test may take beyond ten times what it takes by itself, before its mutant counts as hanging."""
_PASSED, _FAILED, _HUNG = 0, 1, 2


class Run:
    """All mutants, each with its verdict."""

    def __init__(self, mutants: list[tuple[str, Mutant]], *, jobs: int, seconds: float, keep: Path | None) -> None:
        self._mutants, self._jobs, self._seconds, self._keep = mutants, jobs, seconds, keep
        self._lines: dict[str, dict[str, float]] = {}
        """For every line that some test runs, as file:number, the tests, and how long each takes."""
        self.verdicts: list[tuple[str, Mutant, str]] = []

    # pytest hooks

    def pytest_configure(self) -> None:
        settings.register_profile("mutants", deadline=None, database=None, derandomize=True)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests once, run for each mutant those that may notice it."""
        settings.load_profile("mutants")
        plain_command()  # one server of forks for all
        items = {item.nodeid: item for item in session.items}
        self._lines = self._measured(session)
        functions = _functions()
        waiting, running = list(reversed(self._mutants)), dict[int, tuple[str, Mutant]]()
        while waiting or running:
            while waiting and len(running) < self._jobs:
                file, mutant = waiting.pop()
                tests = self._tests_for(file, mutant)
                if tests:
                    chosen = [(items[name], seconds) for name, seconds in tests.items() if name in items]
                    child = _fork(chosen, functions[file], file, mutant)
                    running[child] = file, mutant
                else:
                    self._judge(file, mutant, NEVER_RUN)
            for child, (file, mutant) in list(running.items()):
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    _kill(child)
                    del running[child]
                    self._judge(file, mutant, _verdict(status))
            time.sleep(0.01)
        return True

    def _judge(self, file: str, mutant: Mutant, verdict: str) -> None:
        self.verdicts.append((file, mutant, verdict))
        if verdict != NOTICED:
            print(
                f"{len(self.verdicts)}/{len(self._mutants)} {file}:{mutant.line} {mutant.name} [{verdict}]", flush=True
            )

    def report(self) -> float:
        """Print how many were noticed, file by file; the share of all."""
        print()
        for file in (*BROKEN, ""):
            mine = [verdict for where, _, verdict in self.verdicts if where == file or not file]
            if mine:
                noticed = sum(verdict in (NOTICED, HUNG) for verdict in mine)
                hung, known = mine.count(HUNG), len(equivalents().get(file, {}))
                print(
                    f"{file or 'all':<32}{noticed:>5} of {len(mine):<5}{noticed / len(mine):>7.1%}"
                    f"  ({hung} by hanging; {known} equivalent)"
                )
        return sum(verdict in (NOTICED, HUNG) for _, _, verdict in self.verdicts) / len(self.verdicts)

    def _tests_for(self, file: str, mutant: Mutant) -> dict[str, float]:
        """The tests that run a line, the quickest first, and how long each takes."""
        key = _line(file, mutant.line) if mutant.function else f"{file}: *"
        found = self._lines.get(key, {})
        chosen, spent = dict[str, float](), 0.0
        for test in sorted(found, key=found.__getitem__):
            spent += found[test]
            if chosen and spent > self._seconds:
                break
            chosen[test] = found[test]
        return chosen

    # Which test runs which line.

    def _measured(self, session: pytest.Session) -> dict[str, dict[str, float]]:
        """The tests of every line, and how long each takes; only files that changed are run for it again."""
        kept: dict[str, Any] = {}
        if self._keep is not None and self._keep.exists():
            kept = json.loads(self._keep.read_text())
        digests = {str(item.path): hashlib.sha256(item.path.read_bytes()).hexdigest() for item in session.items}
        changed = {path for path, digest in digests.items() if kept.get(path, {}).get("of") != digest}
        items = [item for item in session.items if str(item.path) in changed]
        if items:
            with tempfile.TemporaryDirectory() as folder:
                result = Path(folder, "lines")
                child = os.fork()
                if not child:
                    _leave(lambda: _trace(items, result))
                os.waitpid(child, 0)
                lines: dict[str, dict[str, dict[str, float]]] = json.loads(result.read_text())
            kept |= {path: {"of": digests[path], "lines": lines.get(path, {})} for path in changed}
        if self._keep is not None:
            self._keep.write_text(json.dumps(kept))
        merged: dict[str, dict[str, float]] = defaultdict(dict)
        for path in digests:
            for line, tests in kept[path]["lines"].items():
                merged[line] |= tests
        return merged


def _verdict(status: int) -> str:
    """What the end of its process says of a mutant; one that crashed it was noticed."""
    code = os.waitstatus_to_exitcode(status)
    return NOTICED if code < 0 else {_PASSED: UNNOTICED, _FAILED: NOTICED, _HUNG: HUNG}.get(code, UNTRIED)


def _line(file: str, number: int) -> str:
    """A line by its text, which moves less often than its number."""
    return f"{file}: {text_of(file).splitlines()[number - 1].strip()}"


def _trace(items: list[pytest.Item], result: Path) -> int:
    """Run tests once, and write down which lines each ran and how long it took; those that fail notice nothing."""
    files = {str(SOURCE / file): file for file in BROKEN}
    seen: set[tuple[str, int]] = set()

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename in files else None

    lines: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    threading.settrace(trace)
    sys.settrace(trace)
    for item, following in zip(items, [*items[1:], None], strict=True):
        seen.clear()
        began = time.process_time()  # which other work on the machine does not lengthen
        if not _passes(item, following):
            print(f"{item.nodeid} fails without any mutant, and is not asked.", flush=True)
            continue
        took = time.process_time() - began
        for name, number in seen:
            for line in (_line(files[name], number), f"{files[name]}: *"):
                lines[str(item.path)][line][item.nodeid] = took
    result.write_text(json.dumps(lines))
    return 0


# One mutant, in a process of its own.


def _functions() -> dict[str, list[FunctionType]]:
    """What can be broken, by file: looked for once, since whoever looks at all objects has a copy of them all."""
    gc.unfreeze()
    files = {str(SOURCE / file): file for file in BROKEN}
    found: dict[str, list[FunctionType]] = {file: [] for file in BROKEN}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in files:
            found[files[one.__code__.co_filename]].append(one)
    gc.collect()
    gc.freeze()
    return found


def _fork(items: list[tuple[pytest.Item, float]], functions: list[FunctionType], file: str, mutant: Mutant) -> int:
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)
    _leave(lambda: _try(items, functions, file, mutant))


def _leave(work: Callable[[], int]) -> NoReturn:
    status = 99
    try:
        status = work()
    finally:
        sys.stdout.flush()
        os._exit(status)


def _try(items: list[tuple[pytest.Item, float]], functions: list[FunctionType], file: str, mutant: Mutant) -> int:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    _install(functions, file, mutant)
    watch = _Watch()
    following = [item for item, _ in items[1:]]
    try:
        for (item, seconds), after in zip(items, [*following, None], strict=True):
            watch.allow(PATIENCE + 10 * seconds)
            if not _passes(item, after):
                return _FAILED
    except BaseException:  # what is broken may break its test in any way
        return _FAILED
    return _PASSED


class _Watch:
    """Ends this process when a test takes too long; what it waits while others have the processor does not count."""

    def __init__(self) -> None:
        self._until = float("inf")
        threading.Thread(target=self._look, daemon=True).start()

    def allow(self, seconds: float) -> None:
        """Begin anew."""
        self._until = time.monotonic() - _queued() + seconds

    def _look(self) -> None:
        while time.monotonic() - _queued() < self._until:
            time.sleep(0.2)
        os._exit(_HUNG)


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    reports: list[pytest.TestReport] = []

    class Watch:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            reports.append(report)

    watch = Watch()
    manager = item.config.pluginmanager
    manager.register(watch)
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    manager.unregister(watch)
    item.session.shouldfail = item.session.shouldstop = False
    return not any(report.failed for report in reports)


def _install(functions: list[FunctionType], file: str, mutant: Mutant) -> None:
    name = "trunkline." + file.removesuffix(".py").replace("/", ".")
    module = sys.modules[name]
    tree = mutant.applied(text_of(file))
    if not mutant.function:
        _install_constant(module, tree, mutant)
        return
    code = _code_of(compile(tree, str(SOURCE / file), "exec"), mutant.function)
    new = {(one.co_qualname, one.co_firstlineno): one for one in _nested(code)}
    found = [one for one in functions if (one.__code__.co_qualname, one.__code__.co_firstlineno) in new]
    assert any(one.__code__.co_qualname == mutant.function for one in found), mutant.name
    for function in found:
        function.__code__ = new[function.__code__.co_qualname, function.__code__.co_firstlineno]


def _nested(code: CodeType) -> Iterator[CodeType]:
    """A function, and those in it, which may have been made already."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _nested(one)


def _code_of(code: CodeType, name: str) -> CodeType:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_qualname == name:
                return one
            if name.startswith(f"{one.co_qualname}."):
                return _code_of(one, name)
    raise LookupError(name)


def _install_constant(module: ModuleType, tree: ast.Module, mutant: Mutant) -> None:
    """A number is known to whoever imported it as well."""
    made = tree.body[mutant.path[0][1]]
    assert isinstance(made, ast.Assign)
    name = ast.unparse(made.targets[0])
    old = vars(module)[name]
    value = eval(compile(ast.Expression(made.value), "<mutant>", "eval"), vars(module))
    for other in list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith(("trunkline", "tests")) and vars(other).get(name) is old:
            setattr(other, name, value)


def _queued() -> float:
    """Seconds that this process wanted to run and others did."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # where nobody counts that


def _kill(child: int) -> None:
    """End what a mutant left behind: its group."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
