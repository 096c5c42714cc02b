"""The tree of an SQL expression. Plain data, built by ``parser``, compiled by ``evaluate``."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_py.core.sql92.numbers import Value


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a property, a text, or null if the message does not have it."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; None is NULL."""

    value: Value | None


@dataclass(frozen=True, slots=True)
class Negate:
    """The negative of a number; null for anything else."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Not:
    """True of false, false of true, unknown of unknown."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Truth:
    """A property used as a truth value: false, because it is a text, or null."""

    operand: Property


@dataclass(frozen=True, slots=True)
class And:
    """False as soon as one term is; unknown when none is false and one unknown."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True as soon as one term is; unknown when none is true and one unknown."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """The same value, or both null. A text beside a number or truth value is read as one."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class IsNull:
    """True or false, never unknown."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Compare:
    """``operator`` is one of ``> >= < <=``."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """Two comparisons of one value: ``>= low AND <= high``, or ``< low OR > high``.

    The value is one node, however often it is compared: written out twice, nested ranges would double at each level.
    """

    operand: Node
    low: Node
    high: Node
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """``operator`` is CONTAINS, STARTSWITH or ENDSWITH."""

    operator: str
    operand: Node
    text: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    """True if a property is one of some texts."""

    operand: Property
    texts: frozenset[str]
    negated: bool = False


Node = Property | Constant | Negate | Not | Truth | And | Or | Equal | IsNull | Compare | Between | Search | In


def is_boolean(node: Node) -> bool:
    """True if a node is a condition and not a value."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property | Negate)


def children(node: Node) -> tuple[Node, ...]:
    """Return the children of a node."""
    if isinstance(node, And | Or):
        return node.terms
    if isinstance(node, Equal | Compare):
        return (node.left, node.right)
    if isinstance(node, Between):
        return (node.operand, node.low, node.high)
    return () if isinstance(node, Property | Constant) else (node.operand,)
