"""The nodes of the tree of an SQL expression, which ``parser`` builds and ``evaluate`` compiles."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.core.sql92.numbers import Value


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a message property: a text, or null if the message does not have the property."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; None is NULL."""

    value: Value | None


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus: the negated number; null for other values."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Not:
    """Logical NOT; unknown if the operand is unknown."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Truth:
    """A property used as a condition: false if the message has it (its value is a text), else unknown."""

    operand: Property


@dataclass(frozen=True, slots=True)
class And:
    """Logical AND: false if any term is false; else unknown if any term is unknown; else true."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Logical OR: true if any term is true; else unknown if any term is unknown; else false."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """``left = right``: true if both values are equal or null; unknown if only ``left`` is null; else false.

    A text compared with a number or boolean is converted to its type.
    """

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS NULL``; never unknown."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of order; ``operator`` is one of ``> >= < <=``. Unknown if an operand is null."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """BETWEEN: ``operand >= low AND operand <= high``; if negated, ``operand < low OR operand > high``.

    It is one node, because as two comparisons the operand would occur twice, and nested ones 2, 4, 8 ... times.
    """

    operand: Node
    low: Node
    high: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class Search:
    """A search for ``text`` in the operand's value; ``operator`` is CONTAINS, STARTSWITH or ENDSWITH."""

    operator: str
    operand: Node
    text: str
    negated: bool


@dataclass(frozen=True, slots=True)
class In:
    """``operand IN (texts)``: true if the property's value is one of the texts; unknown if the property is absent."""

    operand: Property
    texts: frozenset[str]
    negated: bool


Node = Property | Constant | Negate | Not | Truth | And | Or | Equal | IsNull | Compare | Between | Search | In


def is_boolean(node: Node) -> bool:
    """Return True if a node is a condition, that is, its result is a truth value; NULL counts as one."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property | Negate)


def children(node: Node) -> tuple[Node, ...]:
    """Return the operands of a node that are nodes themselves, in order."""
    if isinstance(node, And | Or):
        return node.terms
    if isinstance(node, Equal | Compare):
        return (node.left, node.right)
    if isinstance(node, Between):
        return (node.operand, node.low, node.high)
    return () if isinstance(node, Property | Constant) else (node.operand,)
