"""A few rounds of random damage, with the same seeds each time; ``python -m tests.damage`` runs many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.damage.damages import Choice
from tests.damage.rounds import Bench


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


def test_a_seed_repeats_its_damage(bench: Bench) -> None:
    first = bench.round(7)
    assert (first.damage, first.was_closed, first.lines) == (
        (again := bench.round(7)).damage, again.was_closed, again.lines,
    )  # fmt: skip
