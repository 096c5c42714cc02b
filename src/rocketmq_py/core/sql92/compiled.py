"""Compiled SQL expressions, and a cache of them.

Time and memory of compiling are linear in the length of the expression, so the limits in ``parser`` bound both.
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

    :ivar expression: text of the expression.
    :ivar cost: maximum number of tree nodes that one evaluation visits; a node takes about 0.3 µs. CONTAINS, STARTSWITH
        and ENDSWITH count as 20, because a property may have 32 KiB.
    :ivar unread: the text after the first complete expression, which brokers ignore: of ``a LIKE 'x'``, only ``a`` is
        evaluated.
    """

    def __init__(self, expression: str, unread: str, run: Run, cost: int = 1) -> None:
        self.expression = expression
        self.unread = unread
        self.cost = cost
        self._run = run

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Evaluate the expression on the properties of a message; return None for unknown, as with NULL in SQL.

        :raises EvaluationError: a property cannot be converted to the type of a comparison.
        """
        return cast("bool | None", self._run(properties))

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return True if the expression is true for these properties; False if it is false, unknown or fails."""
        try:
            return self._run(properties) is True
        except EvaluationError:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({shortened(self.expression)!r})"


class Compiler:
    """Compiles expressions and caches the most recently used ones. Thread-safe.

    A compiled expression takes about 110 bytes per character of its text, so the default cache takes at most 30 MiB.

    :param most_characters: maximum length of all cached expressions together.
    :param most: maximum number of cached expressions.
    """

    def __init__(self, most_characters: int = _KEPT_CHARACTERS, most: int = _KEPT_EXPRESSIONS) -> None:
        self._kept: OrderedDict[str, SqlFilter] = OrderedDict()
        self._lock = Lock()
        self._most_characters = most_characters
        self._most = most
        self.characters = 0
        """Total number of characters of all cached expressions."""

    def __call__(self, expression: str) -> SqlFilter:
        """Return the compiled form of an expression, from the cache if possible.

        :raises SqlIllegal: the expression is invalid; the error has the position and what is expected there.
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
"""Compiles an expression, with one cache for the process; see :class:`Compiler`."""


def _compiled(expression: str) -> SqlFilter:
    node, end = parse(expression)
    cost = _cost(expression, node)  # first, because it refuses deep trees, and build() is recursive
    return SqlFilter(expression, expression[end:], build(node), cost)


def _cost(expression: str, node: Node) -> int:
    """Return the maximum cost of one evaluation; see :class:`SqlFilter`.

    :raises SqlIllegal: the tree is too deep, because of parentheses or of chained operators (``a = b = c = ...``).
    """
    level, cost = [node], 0
    for _ in range(MAX_DEPTH):
        cost += sum(_SEARCH_COST if isinstance(one, Search) else 1 for one in level)
        level = [child for parent in level for child in children(parent)]
        if not level:
            return cost
    raise SqlIllegal(expression, 0, f"nested more than {MAX_DEPTH} deep")
