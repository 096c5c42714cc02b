"""Conditions of a query narrow what is read, and never too far."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from rocketmq_py.arrow.source.pruning import prune
from rocketmq_py.model import MessageQueue

A, B = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
COMPARE: dict[Any, Any] = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}


def test_conditions_on_columns_select_queues() -> None:
    pruning = prune([EqualTo(("queueId",), 1), In(("topic",), ("t", "u"))])
    assert not pruning.wants(A)
    assert pruning.wants(B)
    assert not prune([EqualTo(("queueId",), 1), EqualTo(("queueId",), 0)]).wants(A), "both must hold"


def test_conditions_on_tags_become_tag_expressions() -> None:
    assert prune([In(("tags",), ("b", "a", None))]).tags == ("a", "b")
    assert prune([EqualTo(("tags",), "a | b")]).tags == ()
    assert prune([EqualTo(("tags",), "*")]).tags == ()


def test_unsupported_conditions_are_ignored() -> None:
    conditions = [
        Not(EqualTo(("queueId",), 0)), IsNotNull(("tags",)), StringStartsWith(("tags",), "a"), EqualTo(("body",), b""),
        LessThan(("storeTimestamp",), datetime(2026, 1, 1)), EqualTo(("properties", "queueId"), 1),  # noqa: DTZ001
    ]  # fmt: skip
    assert prune(conditions) == prune([])
    assert prune(conditions).wants(A)


@given(st.lists(st.tuples(st.sampled_from(list(COMPARE)), st.integers(0, 20)), max_size=3))
def test_conditions_on_offsets_narrow_the_range(conditions: list[tuple[Any, int]]) -> None:
    pruning = prune(kind(("queueOffset",), value) for kind, value in conditions)
    start, stop = pruning.narrow({A: 0}, {A: 30}, {}, {})
    wanted = [i for i in range(30) if all(COMPARE[kind](i, value) for kind, value in conditions)]
    assert list(range(start[A], stop[A])) == wanted


@given(st.lists(st.tuples(st.sampled_from(list(COMPARE)), st.integers(0, 20_000)), max_size=3))
def test_conditions_on_times_narrow_the_range(conditions: list[tuple[Any, int]]) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    pruning = prune(kind(("storeTimestamp",), epoch + timedelta(microseconds=us)) for kind, us in conditions)
    since, before = pruning.times
    wanted = {ms for ms in range(30) if all(COMPARE[kind](ms * 1000, us) for kind, us in conditions)}
    assert wanted <= {ms for ms in range(30) if since <= ms < before}
    if not any(kind is EqualTo for kind, _ in conditions):
        assert wanted == {ms for ms in range(30) if since <= ms < before}


def test_offsets_of_times_narrow_a_queue() -> None:
    assert prune([]).narrow({A: 3, B: 3}, {A: 9, B: 9}, {A: 5}, {B: 4}) == ({A: 5, B: 3}, {A: 9, B: 4})


def test_without_conditions_nothing_is_narrowed() -> None:
    pruning = prune([])
    assert not pruning.by_time
    assert pruning.narrow({A: 0, B: 3}, {A: 5, B: 9}, {}, {}) == ({A: 0, B: 3}, {A: 5, B: 9})
    assert (pruning.wants(A), pruning.tags) == (True, ())
