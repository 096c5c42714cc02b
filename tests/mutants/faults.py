"""Faults of one line: what a slip of the hand would have written instead.

Left out are lines whose fault no test should have to notice: annotations, docstrings, log records, assertions, messages
of errors, decorators, and generated modules, which ``make check`` compares with their source.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
LOGGERS = {"_log", "log", "logger", "logging", "warnings"}
GENERATED = "Generated from"


@dataclass(frozen=True)
class Fault:
    """Bytes ``start`` to ``end`` of a module's text, and what stands there instead; ``line`` counts from 1.

    ``last`` is the line where it ends. ``imported``: the line runs when the module is imported, in no test, or in
    the first one that needs what it caches. ``scope``: class and function it stands in.
    """

    line: int
    last: int
    start: int
    end: int
    text: str
    kind: str
    imported: bool = False
    scope: str = ""

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def lines(self, source: bytes) -> tuple[str, str]:
        """The line as it was and as it is, without indentation; of a longer statement its first line."""
        begin = source.rfind(b"\n", 0, self.start) + 1
        line = source[begin : _end_of_line(source, self.start)]
        changed = source[begin : self.start] + self.text.encode() + source[self.end : _end_of_line(source, self.end)]
        return line.strip().decode(), changed.partition(b"\n")[0].strip().decode()


def _end_of_line(source: bytes, position: int) -> int:
    """Where the line ends that has this position."""
    end = source.find(b"\n", position)
    return len(source) if end < 0 else end


def faults(source: bytes) -> list[Fault]:
    """All faults of a module, in the order of its lines."""
    text = source.decode()
    tree = ast.parse(text)
    if GENERATED in (ast.get_docstring(tree) or ""):
        return []
    return sorted(_Finder(source).of_module(tree), key=lambda fault: (fault.line, fault.start, fault.text))


def one_per_line(found: list[Fault], rng: random.Random) -> list[Fault]:
    """A random fault for each line that has any."""
    lines: dict[int, list[Fault]] = {}
    for fault in found:
        lines.setdefault(fault.line, []).append(fault)
    return [rng.choice(lines[line]) for line in sorted(lines)]


class _Finder:
    """Walks a module and yields the faults of each node."""

    def __init__(self, source: bytes) -> None:
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def of_module(self, tree: ast.Module) -> Iterator[Fault]:
        for statement in tree.body:
            yield from self._statement(statement, imported=True)

    def _statement(self, node: ast.stmt, *, imported: bool) -> Iterator[Fault]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for fault in self._definition(node):
                yield replace(fault, scope=f"{node.name}.{fault.scope}".rstrip("."))
        elif not _left_out(node):
            yield from self._marked(self._own(node), None, imported=imported)
            for name, value in ast.iter_fields(node):
                if name not in {"annotation", "exc", "cause"}:  # an error's message is for readers
                    for child in value if isinstance(value, list) else [value]:
                        yield from self._child(child, imported=imported)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[Fault]:
        if isinstance(node, ast.ClassDef):
            yield from self._block(node.body, imported=True)
        else:
            for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]:
                yield from self._marked(self._expression(default), "default", imported=True)
            yield from self._block(node.body, imported=any(map(_is_cache, node.decorator_list)))

    def _child(self, child: Any, *, imported: bool) -> Iterator[Fault]:
        if isinstance(child, ast.stmt):
            yield from self._statement(child, imported=imported)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from self._block(child.body, imported=imported)
        elif isinstance(child, ast.withitem):
            yield from self._marked(self._expression(child.context_expr), None, imported=imported)
        elif isinstance(child, ast.expr):
            yield from self._marked(self._expression(child), None, imported=imported)

    def _block(self, body: list[ast.stmt], *, imported: bool) -> Iterator[Fault]:
        for statement in body:
            yield from self._statement(statement, imported=imported)

    def _marked(self, found: Iterator[Fault], kind: str | None, *, imported: bool) -> Iterator[Fault]:
        for fault in found:
            yield replace(fault, kind=kind or fault.kind, imported=imported)

    def _own(self, node: ast.stmt) -> Iterator[Fault]:
        """Faults of a statement as a whole; its expressions have theirs."""
        match node:
            case ast.AugAssign() if type(node.op) in ARITHMETIC:
                yield self._fault(node, "pass", "statement removed")
                other = ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
                yield self._fault(node, ast.unparse(other), "arithmetic")
            case (
                ast.Expr(value=ast.Call() | ast.Await())
                | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
                | ast.Delete(targets=[ast.Attribute() | ast.Subscript(), *_])
                | ast.Raise(exc=ast.expr())
            ):
                yield self._fault(node, "pass", "statement removed")
            case ast.Return(value=ast.expr() as value) if not _is_falsy(value):
                yield self._fault(value, "None", "return")
            case ast.If() | ast.While():
                yield self._fault(node.test, "False", "condition")
                if isinstance(node, ast.If):
                    yield self._fault(node.test, "True", "condition")
            case ast.Break() | ast.Continue():
                other_one = "continue" if isinstance(node, ast.Break) else "break"
                yield self._fault(node, other_one, "statement replaced")
            case _:
                pass

    def _expression(self, node: ast.expr) -> Iterator[Fault]:
        for other, kind in _others(node):
            yield self._fault(
                node, f"({ast.unparse(other)})" if isinstance(node, ast.BinOp) else ast.unparse(other), kind
            )
        if isinstance(node, ast.JoinedStr):
            return  # what it says, to whom it may concern
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from self._expression(child)
            elif isinstance(child, ast.keyword):
                if not _is_assertion(node, child):
                    yield from self._expression(child.value)
            elif isinstance(child, ast.comprehension):
                for part in (child.iter, *child.ifs):
                    yield from self._expression(part)

    def _fault(self, node: ast.expr | ast.stmt, text: str, kind: str) -> Fault:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        return Fault(node.lineno, node.end_lineno, start, end, text, kind)


def _others(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    match node:
        case ast.Compare(ops=[first, *more]):
            for other in COMPARISONS[type(first)]:
                yield ast.Compare(node.left, [other(), *more], node.comparators), "comparison"
        case ast.BinOp() if type(node.op) in ARITHMETIC and not (_is_text(node.left) or _is_text(node.right)):
            yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right), "arithmetic"
        case ast.BoolOp():
            yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values), "and, or"
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand, "not"
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value), "constant"
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1), "constant"
            yield ast.Constant(value - 1), "constant"
        case ast.IfExp():
            yield node.body, "condition"
            yield node.orelse, "condition"
        case _:
            pass


def _is_cache(decorator: ast.expr) -> bool:
    """Whether only the first test of a process runs the function, and others get what it returned."""
    return ast.unparse(decorator).partition("(")[0] in ("cache", "functools.cache", "lru_cache", "functools.lru_cache")


def _left_out(node: ast.stmt) -> bool:
    """Whether a fault in the statement is none that a test should notice."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in LOGGERS
        case (
            ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None)
        ):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case _:
            return False


def _is_assertion(call: ast.expr, keyword: ast.keyword) -> bool:
    """Whether it is the ``strict=True`` of a ``zip`` whose iterables have the same length by construction."""
    match call, keyword:
        case ast.Call(func=ast.Name(id="zip")), ast.keyword(arg="strict", value=ast.Constant(value=True)):
            return True
        case _:
            return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_falsy(node: ast.expr) -> bool:
    """Whether None would mean the same to most callers; ``True`` instead of ``False`` is tried as a constant."""
    return isinstance(node, ast.Constant) and not node.value
