"""Every scenario of failure once, in small, on one cluster of two brokers and two name servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaoskit.chaos import Chaos
from tests.chaoskit.scenarios import ALL

pytestmark = [
    pytest.mark.java_timeouts,  # what applications have
    pytest.mark.timeout(900),  # what is waited for comes in seconds; on a busy machine it may take minutes
    pytest.mark.skipif("sys.platform == 'win32'", reason="signals of POSIX"),
]


def ends_of_logs(work: Path) -> Iterator[str]:
    """What every process of the cluster has said last."""
    for log in sorted(work.glob("*.log")):
        yield f"--- {log.name}"
        yield log.read_text(errors="replace")[-3000:]


LOCK_SECONDS = 4.0
"""Brokers give a lock away after twice that: only then may two members be at work on one queue, one of them stalled."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chaos")


@pytest.fixture(scope="module")
def chaos(work: Path) -> Iterator[Chaos]:
    with Chaos(seed=1, pace=0.4, lock_seconds=LOCK_SECONDS, work=work) as running:
        yield running


@pytest.mark.parametrize("name", ALL)
def test_scenario_ends_without_violations(chaos: Chaos, work: Path, name: str) -> None:
    outcome = chaos.run(ALL[name])
    assert not outcome.faults, "\n".join([*outcome.faults[:20], *ends_of_logs(work)])
    assert outcome.figures.consumed >= outcome.figures.acknowledged > 0
