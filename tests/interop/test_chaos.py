"""Scenarios of failure on Java's servers, once each, in small: ``make chaos ARGS="--java"`` runs them all."""

from collections.abc import Iterator

import pytest

from tests.chaos import JavaServers
from tests.chaoskit.chaos import Chaos
from tests.chaoskit.scenarios import ALL, PAIRED
from tests.interop.javapeer import JavaPeer

pytestmark = [
    pytest.mark.java_timeouts,
    pytest.mark.long,
    pytest.mark.timeout(1800),
]  # JVMs that start on a busy machine take their time

LOCK_SECONDS = 1.5


@pytest.fixture(scope="module")
def chaos() -> Iterator[Chaos]:
    JavaPeer.build()
    with Chaos(
        seed=1, pace=0.4, slaves=1, name_servers=1, lock_seconds=LOCK_SECONDS, servers=JavaServers(LOCK_SECONDS)
    ) as running:
        yield running


@pytest.mark.parametrize("name", ["half-open-network", "orderly-consumer-killed", "master-killed"])
def test_scenario_ends_without_violations(chaos: Chaos, name: str) -> None:
    """The network, a consumer and the master of a pair fail."""
    outcome = chaos.run((ALL | PAIRED)[name])
    assert not outcome.faults, "\n".join(outcome.faults[:20])
    assert outcome.figures.consumed >= outcome.figures.acknowledged > 0
