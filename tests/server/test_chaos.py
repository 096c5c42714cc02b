"""Every scenario of failure once, in small, on one cluster of two brokers and two name servers."""

from collections.abc import Iterator

import pytest

from tests.chaoskit.chaos import Chaos
from tests.chaoskit.scenarios import ALL

pytestmark = [
    pytest.mark.java_timeouts,  # what applications have
    pytest.mark.timeout(900),  # what is waited for comes in seconds; on a busy machine it may take minutes
    pytest.mark.skipif("sys.platform == 'win32'", reason="signals of POSIX"),
]


LOCK_SECONDS = 4.0
"""Brokers give a lock away after twice that: only then may two members be at work on one queue, one of them stalled."""


@pytest.fixture(scope="module")
def chaos() -> Iterator[Chaos]:
    with Chaos(seed=1, pace=0.4, lock_seconds=LOCK_SECONDS) as running:
        yield running


@pytest.mark.parametrize("name", ALL)
def test_scenario_ends_without_violations(chaos: Chaos, name: str) -> None:
    outcome = chaos.run(ALL[name])
    assert not outcome.faults, "\n".join(outcome.faults[:20])
    assert outcome.figures.consumed >= outcome.figures.acknowledged > 0
