"""Scenarios of failure on a SYNC_MASTER and its slave, once each, in small, with a second master."""

from collections.abc import Iterator

import pytest

from tests.chaoskit.chaos import Chaos
from tests.chaoskit.scenarios import PAIRED

pytestmark = [
    pytest.mark.java_timeouts,  # what applications have
    pytest.mark.timeout(900),  # as in test_chaos.py
    pytest.mark.skipif("sys.platform == 'win32'", reason="signals of POSIX"),
]


LOCK_SECONDS = 4.0
"""Brokers give a lock away after twice that: only then may two members be at work on one queue, one of them stalled."""


@pytest.fixture(scope="module")
def chaos() -> Iterator[Chaos]:
    with Chaos(seed=1, slaves=1, name_servers=1, lock_seconds=LOCK_SECONDS) as running:
        yield running


@pytest.mark.parametrize("name", PAIRED)
def test_scenario_ends_without_violations(chaos: Chaos, name: str) -> None:
    outcome = chaos.run(PAIRED[name])
    assert not outcome.faults, "\n".join(outcome.faults[:20])
    assert outcome.figures.consumed >= outcome.figures.acknowledged > 0
