"""A broker of our own for the tests of a module, with a new topic and group for each."""

import gc
import itertools

import pytest

from rocketmq_py.server.slow_turns import SlowTurns
from rocketmq_py.testing import Cluster
from tests.patience import patient_clients

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def patience():
    """Longer timeouts for the clients of a module: ``pytestmark = pytest.mark.usefixtures("patience")``."""
    with patient_clients():
        yield


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster):
    return cluster.create_topic(f"topic-{next(_numbers)}", 4)


@pytest.fixture
def group():
    return f"group-{next(_numbers)}"


@pytest.fixture
def quick_turns(monkeypatch):
    """The test fails if a turn of a server's event loop in this process works for longer than 100 ms.

    Working time is processor time, so that a busy machine does not matter much. The monitor looks every 50 ms: work of
    shorter turns in between counts as part of a long one, hence the tolerance. A server's own process has nothing of
    what the tests of a worker have left in memory, so that a full collection does not go through it here, either.
    """
    gc.collect()
    gc.freeze()
    long = []
    report = SlowTurns._report

    def watched(self, name, milliseconds):
        long.append((milliseconds, name))
        report(self, name, milliseconds)

    monkeypatch.setattr(SlowTurns, "_report", watched)
    yield
    gc.unfreeze()
    assert [turn for turn in long if turn[0] > 100 + 50] == []
