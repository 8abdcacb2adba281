"""The ways in which a line is broken: each mutant differs from the original in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

FACTOR = 4
NORMALISING = ("lower", "strip", "rstrip", "lstrip")
SILENT = ("log", "warnings")
"""Whoever drops a call of theirs changes nothing but what is said."""
_EDGE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
_OTHER = {"min": "max", "max": "min", "any": "all", "all": "any"}

Step = tuple[str, int]
"""A field of a node, and the place in it; -1 where the field is no list."""


@dataclass(frozen=True)
class Mutant:
    """One place broken in one way."""

    function: str
    """The outermost function it is in, by its qualified name; empty for a module's constant."""
    line: int
    words: str
    """What stood there, and what stands there now."""
    path: tuple[Step, ...]
    replacement: ast.AST

    @property
    def name(self) -> str:
        """How the list of equivalents calls it."""
        return f"{self.function or 'module'}: {self.words}"

    def applied(self, text: str) -> ast.Module:
        """The module with this place broken."""
        tree = ast.parse(text)
        node: Any = tree
        for field, index in self.path[:-1]:
            node = getattr(node, field) if index < 0 else getattr(node, field)[index]
        field, index = self.path[-1]
        old = getattr(node, field) if index < 0 else getattr(node, field)[index]
        new = self.replacement
        if isinstance(new, ast.Pass):
            # Never reached, yet its names stay known: a closure of other names could not take the place of one that is.
            new = ast.If(test=ast.Constant(value=False), body=[old], orelse=[])
        ast.copy_location(new, old)
        if index < 0:
            setattr(node, field, new)
        else:
            getattr(node, field)[index] = new
        return ast.fix_missing_locations(tree)


def mutants_of(text: str) -> list[Mutant]:
    """Every mutant of a module; no two have the same name."""
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for function, path, node in _places(ast.parse(text), (), "", inside=False):
        # Who negates an `if` has negated the comparison that it consists of.
        whole_test = path[-1][0] == "test" and isinstance(node, ast.Compare)
        for replacement in _replacements(node, whole_test=whole_test) if function else _bound(node):
            words = f"{_shown(node)} -> {_shown(replacement)}"
            count = seen[function + words] = seen.get(function + words, 0) + 1
            words += f" ({count})" if count > 1 else ""
            line = node.target.lineno if isinstance(node, ast.comprehension) else getattr(node, "lineno", 0)
            found.append(Mutant(function, line, words, path, replacement))
    return found


def _places(
    node: ast.AST, path: tuple[Step, ...], name: str, *, inside: bool
) -> Iterator[tuple[str, tuple[Step, ...], ast.AST]]:
    """Every node that may be broken, with the function around it: no defaults, annotations or words for people."""
    for field, value in ast.iter_fields(node):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and field != "body":
            continue
        if field in ("annotation", "cause"):
            continue
        children: list[Any] = value if isinstance(value, list) else [value]  # type: ignore[reportUnknownVariableType]
        for index, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_said(child) or _is_told_elsewhere(node, child):
                continue
            step = (*path, (field, index if isinstance(value, list) else -1))
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _places(child, step, name if inside else f"{name}{child.name}", inside=True)
            elif isinstance(child, ast.ClassDef):
                yield from _places(child, step, name if inside else f"{name}{child.name}.", inside=inside)
            elif inside:
                yield name, step, child
                yield from _places(child, step, name, inside=True)
            elif not path:
                yield "", step, child


def _bound(node: ast.AST) -> Iterator[ast.AST]:
    """A module's number, several times as large."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float()) | ast.BinOp()):
            if name.isupper():
                value = ast.BinOp(left=node.value, op=ast.Mult(), right=ast.Constant(value=FACTOR))
                yield ast.copy_location(ast.Assign(targets=node.targets, value=value), node)
        case _:
            return


def _is_said(node: ast.AST) -> bool:
    """Whether it only makes words for people: a docstring, a message, a line in the log."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in SILENT
        case _:
            return False


def _is_told_elsewhere(node: ast.AST, child: ast.AST) -> bool:
    """Whether breaking the node around it breaks the same thing: a bound off by one, a refusal that is its branch."""
    if isinstance(node, ast.Compare):
        return isinstance(child, ast.Constant) and type(node.ops[0]) in _EDGE
    return isinstance(node, ast.If) and isinstance(child, ast.Raise) and node.body == [child] and not node.orelse


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.Pass):
        return "nothing"
    if isinstance(node, ast.If | ast.While):
        return f"{'if' if isinstance(node, ast.If) else 'while'} {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def _replacements(node: ast.AST, *, whole_test: bool) -> Iterator[ast.AST]:
    match node:
        case ast.If() | ast.While():
            if not isinstance(node.test, ast.Constant):
                yield _with_test(node, _negated(node.test))
            if isinstance(node, ast.If) and not node.orelse:
                yield ast.Pass()
        case ast.IfExp():
            yield ast.IfExp(test=_negated(node.test), body=node.body, orelse=node.orelse)
        case ast.BoolOp():
            yield ast.BoolOp(op=ast.Or() if isinstance(node.op, ast.And) else ast.And(), values=node.values)
            for index in range(len(node.values)):
                rest = node.values[:index] + node.values[index + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest)
        case ast.Compare(ops=[op]):
            yield from _comparisons(node, op, whole_test=whole_test)
        case ast.comprehension(ifs=[_, *_]):
            yield ast.comprehension(target=node.target, iter=node.iter, ifs=[], is_async=node.is_async)
        case ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.Tuple(elts=[ast.Attribute(), *_])]):
            yield ast.Pass()
        case ast.Call():
            yield from _calls(node)
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper)) if lower is not None or upper is not None:
            yield node.value
        case _:
            yield from _constant(node)


def _comparisons(node: ast.Compare, op: ast.cmpop, *, whole_test: bool) -> Iterator[ast.AST]:
    for kinds in (_EDGE,) if whole_test else (_EDGE, _OPPOSITE):
        if type(op) in kinds:
            yield ast.Compare(left=node.left, ops=[kinds[type(op)]()], comparators=node.comparators)
    if isinstance(op, ast.Eq | ast.NotEq) and not isinstance(node.comparators[0], ast.Constant):
        other = ast.In() if isinstance(op, ast.Eq) else ast.NotIn()
        yield ast.Compare(left=node.left, ops=[other], comparators=node.comparators)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    match node.func:
        case ast.Attribute(attr=name) if name in NORMALISING:
            yield node.func.value
        case ast.Name(id=name) if name in _OTHER:
            yield ast.Call(func=ast.Name(id=_OTHER[name], ctx=ast.Load()), args=node.args, keywords=node.keywords)
        case _:
            return


def _constant(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(value=not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value=value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value=value * FACTOR or 1.0)
        case _:
            return


def _with_test(node: ast.If | ast.While, test: ast.expr) -> ast.AST:
    made = ast.If if isinstance(node, ast.If) else ast.While
    return made(test=test, body=node.body, orelse=node.orelse)


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(op=ast.Not(), operand=test)
