"""The house in order: what the layers of imports do not say about the shape of the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"

LONGEST_MODULE, LONGEST_FUNCTION = 450, 60

IMPORTS_LATE = {
    "trunkline.authoring": "the SDK takes a second to load, and who only describes a server need not wait for it",
    "trunkline.cli": "a command loads what it needs, and help nothing",
    "trunkline.config.section": "most files name no secret, and commands need not wait for what keeps them",
    "trunkline.control.search": "searching by meaning is an extra, and who does not search pays for no index",
    "trunkline.gateway.announcement": "who only looks for a gateway needs no loop",
    "trunkline.gateway.api.clients": "few gateways are asked for other clients' files",
    "trunkline.gateway.api.discovery": "few gateways have an endpoint that offers servers",
    "trunkline.gateway.api.registry": "registries are for those who look into them",
    "trunkline.gateway.api.server_actions": "a doctor is loaded when somebody calls for one",
    "trunkline.gateway.console_sign_in": "where nobody signs in, nothing of OAuth is loaded",
    "trunkline.hub": "vendors' formats and discovery are for those who use them",
    "trunkline.tenancy.issuer_keys": "where no identity provider is asked, nothing of OAuth is loaded",
    "trunkline.tenancy.sign_ins": "where nobody signs in, nothing of OAuth is loaded",
    "trunkline.search": "numpy and the model are an extra",
}
"""Where a module of ours is imported inside a function, and why."""

CATCHES_ALL = {
    "trunkline.cli.main": "the outermost place: a person gets a line, not a traceback",
    "trunkline.control.supervisor": "one server's task must end no other's",
    "trunkline.foreign": "the one place for code that is not ours",
    "trunkline.gateway.app": "the outermost place: a caller gets an answer",
    "trunkline.questions.terminal": "the end of a thread: raised where its result is awaited",
    "trunkline.workers": "the end of a thread: raised where its result is awaited",
}
"""Where any exception is caught, and why."""

SMALL_NOUNS: dict[str, str] = {
    "trunkline.call.stages.limits": "a stage of the line",
    "trunkline.call.stages.record": "a stage of the line",
    "trunkline.telemetry.conventions": "names of others, which change by themselves",
}
"""Modules below 60 lines that only one other imports, and why they stand by themselves."""


@cache
def modules() -> dict[str, tuple[str, ast.Module]]:
    """Every module of ours by its name: its text, and what it says."""
    found: dict[str, tuple[str, ast.Module]] = {}
    for file in sorted(SOURCE.glob("**/*.py")):
        name = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        text = file.read_text(encoding="utf-8")
        found[name] = text, ast.parse(text)
    return found


def imports(node: ast.AST, *, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """What is imported of ours, and whether inside a function; what only type checkers read does not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.ImportFrom) and (child.module or "").partition(".")[0] == "trunkline":
            for alias in child.names:
                whole = f"{child.module}.{alias.name}"
                yield (whole if whole in modules() else str(child.module)), inside
        yield from imports(child, inside=inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))


def test_modules_and_functions_can_be_read_at_once() -> None:
    long = {name: lines for name, (text, _) in modules().items() if (lines := len(text.splitlines())) > LONGEST_MODULE}
    functions = {
        f"{name}.{node.name}": lines
        for name, (_, tree) in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
    }

    assert (long, functions) == ({}, {})


def test_modules_of_ours_are_imported_inside_functions_only_where_it_says_why() -> None:
    late = {name for name, (_, tree) in modules().items() for _, inside in imports(tree) if inside}

    assert [name for name in sorted(late) if not name.startswith(tuple(IMPORTS_LATE))] == []


def test_any_exception_is_caught_only_where_it_says_why() -> None:
    places = [
        name
        for name, (_, tree) in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
    ]

    assert sorted(set(places)) == sorted(CATCHES_ALL)
    assert len(places) <= 8


def test_what_one_module_alone_uses_stands_in_it_unless_it_is_a_noun_of_its_own() -> None:
    importers: dict[str, set[str]] = {}
    for name, (_, tree) in modules().items():
        for imported, _ in imports(tree):
            importers.setdefault(imported, set()).add(name)
    small = [name for name, (text, _) in modules().items() if len(text.splitlines()) < 60]

    assert sorted(name for name in small if len(importers.get(name, ())) == 1) == sorted(SMALL_NOUNS)


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, (_, tree) in modules().items() if not ast.get_docstring(tree)] == []
