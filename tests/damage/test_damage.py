"""A few rounds of random damage, with the same seeds each time; ``python -m tests.damage`` runs many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.damage.damages import Choice
from tests.damage.rounds import Bench, NoSuchFile


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


@pytest.mark.parametrize("seed", range(16))
def test_nothing_is_lost_but_the_records_hit(bench: Bench, seed: int) -> None:
    outcome = bench.round(seed)
    assert not outcome.faults, str(outcome)


@pytest.mark.parametrize("seed", range(100, 108))
def test_damage_of_the_log_costs_the_records_hit(bench: Bench, seed: int) -> None:
    outcome = bench.round(seed, Choice("commitlog"))
    assert not outcome.faults, str(outcome)


@pytest.mark.parametrize("seed", range(200, 211))
def test_two_damages_at_once_cost_no_more_than_both(bench: Bench, seed: int) -> None:
    outcome = bench.round(seed, at_once=2)
    assert not outcome.faults, str(outcome)


@pytest.mark.parametrize("seed", range(400, 406))
def test_two_damages_of_messages_cost_no_more_than_both(bench: Bench, seed: int) -> None:
    outcome = bench.round(seed, Choice(without="config/"), at_once=2)
    assert not outcome.faults, str(outcome)


@pytest.mark.parametrize("seed", range(300, 310))
def test_what_a_slave_has_comes_back(bench: Bench, seed: int) -> None:
    outcome = bench.round(seed, Choice("commitlog"), has_replica=True)
    assert not outcome.faults, str(outcome)


@pytest.mark.parametrize("seed", range(500, 504))
@pytest.mark.parametrize("only", ["checkpoint", "queueends"])
def test_files_that_a_killed_store_may_lack_can_be_chosen(bench: Bench, only: str, seed: int) -> None:
    outcome = bench.round(seed, Choice(only), at_once=3)
    assert outcome.damage.each
    assert {one.file for one in outcome.damage.each} <= {"checkpoint", "queueends", "queueends.bak"}
    assert not outcome.faults, str(outcome)


def test_a_choice_without_files_is_an_error(bench: Bench) -> None:
    with pytest.raises(NoSuchFile, match="no file of a store is called 'log' and not 'g'"):
        bench.round(1, Choice("log", "g"))


def test_lost_checkpoint_and_damage_of_the_log_cost_the_records_hit(bench: Bench) -> None:
    """Seed 2160013 of a killed store: without a checkpoint the ends of the queues tell what was on disk."""
    outcome = bench.round(2160013, Choice(without="config/"), at_once=2)
    assert outcome.sample.state == "killed"
    assert [(one.kind, one.area) for one in outcome.damage.each] == [("emptied", "checkpoint"), ("zeros", "commitlog")]
    assert not outcome.faults, str(outcome)


def test_a_topic_that_only_the_damaged_record_tells_cannot_be_healed(bench: Bench) -> None:
    """Seed 2262022 of a store whose queues were never flushed: one bit of the topic in a record."""
    outcome = bench.round(2262022, Choice(without="config/"), has_replica=True)
    assert outcome.sample.state == "young"
    assert [(one.kind, one.area) for one in outcome.damage.each] == [("bit", "commitlog")]
    assert not outcome.faults, str(outcome)


def test_a_seed_repeats_its_damage(bench: Bench) -> None:
    first = bench.round(7)
    assert (first.damage, first.sample, first.lines) == (
        (again := bench.round(7)).damage, again.sample, again.lines,
    )  # fmt: skip
