"""Compiled SQL expressions and their cache.

Time and memory of compilation are linear in the length of the text, so the limits of ``parser`` bound both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import cast

from rocketmq_py.core.sql92.evaluate import EvaluationError, Run, build
from rocketmq_py.core.sql92.parser import MAX_DEPTH, parse
from rocketmq_py.core.sql92.tree import Node, Search, children
from rocketmq_py.errors import SqlIllegal, shortened

_KEPT_CHARACTERS = 256 * 1024
_KEPT_EXPRESSIONS = 1024
_SEARCH_COST = 20


class SqlFilter:
    """A compiled SQL expression.

    :ivar expression: its text.
    :ivar cost: upper bound of one evaluation, in nodes of the tree; a node takes about 0.3 µs. A search in
        a text counts as 20, because texts may have 32 KiB.
    :ivar unread: the text after the first complete expression, which brokers ignore: ``a LIKE 'x'`` means ``a``.
    """

    def __init__(self, expression: str, unread: str, run: Run, cost: int = 1) -> None:
        self.expression = expression
        self.unread = unread
        self.cost = cost
        self._run = run

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Evaluate the expression: true, false, or None for unknown.

        :raises EvaluationError: a property does not have the type its comparison needs.
        """
        return cast("bool | None", self._run(properties))

    def matches(self, properties: Mapping[str, str]) -> bool:
        """True if the expression is true; unknown and errors do not match."""
        try:
            return self._run(properties) is True
        except EvaluationError:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({shortened(self.expression)!r})"


class Compiler:
    """Compiles expressions and caches the least recently used ones; thread-safe.

    A compiled expression takes about 110 bytes for each character of its text: the default keeps at most 30 MiB.

    :param most_characters: limit for the texts of all cached expressions. :param most: limit for their number.
    """

    def __init__(self, most_characters: int = _KEPT_CHARACTERS, most: int = _KEPT_EXPRESSIONS) -> None:
        self._kept: OrderedDict[str, SqlFilter] = OrderedDict()
        self._lock = Lock()
        self._most_characters = most_characters
        self._most = most
        self.characters = 0
        """Length of the texts of all cached expressions."""

    def __call__(self, expression: str) -> SqlFilter:
        """Return the filter of an expression.

        :raises SqlIllegal: it is invalid; the error names the position and what is expected there.
        """
        with self._lock:
            found = self._kept.get(expression)
            if found is not None:
                self._kept.move_to_end(expression)
                return found
        compiled = _compiled(expression)
        with self._lock:
            self._keep(compiled)
        return compiled

    def _keep(self, compiled: SqlFilter) -> None:
        if compiled.expression not in self._kept:
            self.characters += len(compiled.expression)
        self._kept[compiled.expression] = compiled
        while len(self._kept) > self._most or self.characters > self._most_characters:
            gone, _ = self._kept.popitem(last=False)
            self.characters -= len(gone)


compile_sql = Compiler()
"""Compiles an expression, with the cache of this process; see :class:`Compiler`."""


def _compiled(expression: str) -> SqlFilter:
    node, end = parse(expression)
    cost = _cost(expression, node)  # first: what builds is recursive, and this refuses trees that are deep
    return SqlFilter(expression, expression[end:], build(node), cost)


def _cost(expression: str, node: Node) -> int:
    """Return an upper bound of one evaluation; see :class:`SqlFilter`.

    :raises SqlIllegal: the tree is too deep, by parentheses or by operators in a row: ``a = b = c = ...``.
    """
    level, cost = [node], 0
    for _ in range(MAX_DEPTH):
        cost += sum(_SEARCH_COST if isinstance(one, Search) else 1 for one in level)
        level = [child for parent in level for child in children(parent)]
        if not level:
            return cost
    raise SqlIllegal(expression, 0, f"nested more than {MAX_DEPTH} deep")
