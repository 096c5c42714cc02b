"""Topics as lazy frames of Polars: what conditions reduce."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import polars as pl
import pytest

from rocketmq_py import arrow
from rocketmq_py.arrow.polars_scan import pruning_of
from rocketmq_py.arrow.source.pruning import Pruning
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.arrow.scripted import scripted
from tests.unit.arrow.stored import STORED_AT, StoredMessages

COLUMN = pl.col("queueOffset")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (COLUMN == 7, [7]),
        ((COLUMN >= 3) & (COLUMN < 5), [3, 4]),
        (pl.lit(2) > COLUMN, [0, 1]),
        (COLUMN.is_between(3, 5, closed="right"), [4, 5]),
        (pl.col("storeTimestamp") > datetime.fromtimestamp(STORED_AT / 1000 + 37, UTC), [38, 39]),
        (pl.col("tags").is_in(["B"]) & (COLUMN < 4), [1, 3]),
        ((COLUMN == 1) | (COLUMN == 2), [1, 2]),
    ],
)
def test_a_scan_gives_the_rows_that_meet_a_condition(condition: pl.Expr, expected: list[int]) -> None:
    with scripted(StoredMessages(40)) as peer:
        frame = arrow.scan("t", namesrv=peer.address, columns=["queueOffset", "tags", "storeTimestamp"])
        assert frame.filter(condition).collect()["queueOffset"].to_list() == expected


def test_a_scan_pulls_only_offsets_that_a_condition_admits() -> None:
    with scripted(StoredMessages(40)) as peer:
        arrow.scan("t", namesrv=peer.address).filter(COLUMN >= 38).collect()
        assert {int(pull.ext["queueOffset"]) for pull in peer.asked(RequestCode.PULL_MESSAGE)} <= {38, 39}


def test_a_scan_ends_with_the_rows_that_are_asked_for() -> None:
    with scripted(StoredMessages(40), queues=2) as peer:
        frame = arrow.scan("t", namesrv=peer.address)
        assert frame.head(7).collect().height == 7
        assert frame.select(pl.len()).collect().item() == 80


def test_unknown_forms_of_a_condition_say_nothing() -> None:
    for condition in (COLUMN + 1 == 2, COLUMN.is_null(), COLUMN == 1.5, pl.col("x").str.contains("a")):
        assert pruning_of(condition) == Pruning()
    assert pruning_of(object()) == Pruning()


def test_a_scan_without_polars_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigError, match="needs polars"):
        arrow.scan("t", namesrv="127.0.0.1:9876")


def pruned(*conditions: tuple[str, str, object]) -> Pruning:
    made = Pruning()
    for condition in conditions:
        made.add(*condition)
    return made


AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (COLUMN == 7, [("queueOffset", "EqualTo", 7)]),
        (COLUMN > 7, [("queueOffset", "GreaterThan", 7)]),
        (COLUMN <= 7, [("queueOffset", "LessThanOrEqual", 7)]),
        (pl.lit(7) < COLUMN, [("queueOffset", "GreaterThan", 7)]),
        (pl.lit(7) >= COLUMN, [("queueOffset", "LessThanOrEqual", 7)]),
        (
            (COLUMN >= 3) & (pl.col("queueId") == 1),
            [("queueOffset", "GreaterThanOrEqual", 3), ("queueId", "EqualTo", 1)],
        ),
        (COLUMN.is_between(3, 5), [("queueOffset", "GreaterThanOrEqual", 3), ("queueOffset", "LessThanOrEqual", 5)]),
        (
            COLUMN.is_between(3, 5, closed="left"),
            [("queueOffset", "GreaterThanOrEqual", 3), ("queueOffset", "LessThan", 5)],
        ),
        (COLUMN.is_between(3, 5, closed="none"), [("queueOffset", "GreaterThan", 3), ("queueOffset", "LessThan", 5)]),
        (pl.col("tags").is_in(["A", "B"]), [("tags", "In", ["A", "B"])]),
        (pl.col("storeTimestamp") < AT, [("storeTimestamp", "LessThan", AT)]),
    ],
)
def test_a_condition_says_which_messages_to_read(condition: pl.Expr, expected: list[tuple[str, str, object]]) -> None:
    assert pruning_of(condition) == pruned(*expected) != Pruning()
