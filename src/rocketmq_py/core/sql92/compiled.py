"""A compiled SQL expression: compile once, ask often."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from rocketmq_py.core.sql92.evaluate import EvaluationError, Run, build
from rocketmq_py.core.sql92.parser import MAX_DEPTH, parse
from rocketmq_py.core.sql92.tree import Node, children
from rocketmq_py.errors import SqlIllegal


class SqlFilter:
    """An SQL expression that is legal.

    :ivar expression: its text.
    :ivar unread: what follows the first complete expression: brokers ignore it, so that ``a LIKE 'x'`` means ``a``.
    """

    def __init__(self, expression: str, unread: str, run: Run) -> None:
        self.expression = expression
        self.unread = unread
        self._run = run

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """The verdict on a message's properties: true, false, or None for unknown.

        :raises EvaluationError: a property is not of the kind its comparison needs.
        """
        return cast("bool | None", self._run(properties))

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether the message is wanted: the verdict is true; unknown and errors are no match."""
        try:
            return self._run(properties) is True
        except EvaluationError:
            return False

    def __repr__(self) -> str:
        return f"SqlFilter({self.expression!r})"


@lru_cache(maxsize=1024)
def compile_sql(expression: str) -> SqlFilter:
    """The filter of an expression.

    :raises SqlIllegal: it is none; the error names the place and what is expected there.
    """
    node, end = parse(expression)
    if _is_deep(node):
        raise SqlIllegal(expression, 0, f"nested more than {MAX_DEPTH} deep")
    return SqlFilter(expression, expression[end:], build(node))


def _is_deep(node: Node) -> bool:
    """Whether the tree is deeper than it may be; operators in a row do that too: ``a = b = c = ...``."""
    level = [node]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return False
    return True
