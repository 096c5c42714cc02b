"""The rules a run of chaos is judged by: each is broken once."""

from __future__ import annotations

import pytest

from rocketmq_py.model import MessageQueue
from tests.chaoskit.audit import Acknowledged, Audit, Committed, MessageId, Report, Step
from tests.chaoskit.member import line_of, report_of

PLAIN = MessageQueue("plain", "broker-a", 0)
ORDERED = MessageQueue("ordered", "broker-a", 1)


@pytest.fixture
def audit() -> Audit:
    return Audit(ordered=["ordered"])


def acknowledge(audit: Audit, at: float, message_id: str, offset: int, queue: MessageQueue = PLAIN) -> None:
    audit.acknowledge(Acknowledged(at, MessageId.of(message_id), queue, offset))


def consume(
    audit: Audit, at: float, message_id: str, offset: int, *, by: str = "one", queue: MessageQueue = PLAIN,
    steps: str = "BE",
) -> None:  # fmt: skip
    """Half a second of work."""
    for late, step in zip((0.0, 0.5), steps, strict=False):
        audit.report(Report(at + late, by, Step(step), queue, offset, MessageId.of(message_id)))


def faults(audit: Audit) -> list[str]:
    return audit.finish()[0]


def test_a_correct_run_has_no_violations(audit: Audit) -> None:
    acknowledge(audit, 1.0, "p/1", 0)
    acknowledge(audit, 1.2, "o/1", 0, ORDERED)
    consume(audit, 2.0, "p/1", 0)
    consume(audit, 3.0, "p/1", 0, by="two")
    consume(audit, 4.0, "p/2", 1)
    consume(audit, 4.0, "o/1", 0, queue=ORDERED)
    audit.commit(Committed(4.6, PLAIN, 2))
    found, figures = audit.finish()
    assert found == []
    assert (figures.acknowledged, figures.consumed, figures.duplicates) == (2, 3, 1)
    assert figures.longest_wait == pytest.approx(3.3)
    assert audit.finish()[1].acknowledged == 0, "each judgement is about what came since the last one"


def test_a_lost_message_is_a_violation(audit: Audit) -> None:
    acknowledge(audit, 1.0, "p/1", 7)
    consume(audit, 2.0, "p/1", 7, steps="B")
    assert audit.open == {MessageId("p", 1)}
    assert faults(audit) == [
        "p/1, acknowledged at offset 7 of queue 0 of plain on broker-a, was never consumed"
    ]  # fmt: skip


def test_a_message_consumed_before_its_acknowledgement_is_not_open(audit: Audit) -> None:
    consume(audit, 1.0, "p/1", 0)
    acknowledge(audit, 2.0, "p/1", 0)
    assert not audit.open
    assert faults(audit) == []


def test_another_message_at_an_acknowledged_offset_is_a_violation(audit: Audit) -> None:
    acknowledge(audit, 1.0, "p/1", 0)
    acknowledge(audit, 1.0, "p/2", 0)
    consume(audit, 2.0, "p/1", 0)
    consume(audit, 2.0, "p/2", 1)
    consume(audit, 2.0, "p/3", 1)
    found = faults(audit)
    assert found[0] == "offset 0 of queue 0 of plain on broker-a was acknowledged for p/2 and holds p/1"
    assert found[1] == "one got p/3 at offset 1 of queue 0 of plain on broker-a, where p/2 belongs"


@pytest.mark.parametrize(("committed", "is_right"), [(0, True), (1, True), (2, False), (3, False)])
def test_an_offset_ahead_of_consumption_is_a_violation(audit: Audit, committed: int, is_right: bool) -> None:
    """The second message is begun and not done, the third is done."""
    consume(audit, 1.0, "p/1", 0)
    consume(audit, 1.0, "p/2", 1, steps="B")
    consume(audit, 1.0, "p/3", 2)
    audit.commit(Committed(2.0, PLAIN, committed))
    assert (faults(audit) == []) is is_right


def test_an_offset_ahead_at_its_commit_is_a_violation(audit: Audit) -> None:
    consume(audit, 5.0, "p/1", 0)
    audit.commit(Committed(2.0, PLAIN, 1))
    assert faults(audit) == ["offset 1 of queue 0 of plain on broker-a was committed, and 0 had not been done"]


def test_a_gap_in_a_sequence_is_a_violation(audit: Audit) -> None:
    consume(audit, 1.0, "o/1", 0, queue=ORDERED)
    consume(audit, 2.0, "o/3", 2, queue=ORDERED)
    assert faults(audit) == [
        "one began o/3 at offset 2 of queue 1 of ordered on broker-a, the last one done was 1"
    ]  # fmt: skip


def test_redelivery_from_an_earlier_offset_keeps_the_order(audit: Audit) -> None:
    for at, number in enumerate((1, 2, 1, 2, 3)):
        consume(audit, at, f"o/{number}", number, queue=ORDERED, by=f"life-{at > 1}")
    assert faults(audit) == []


@pytest.mark.parametrize("gone", [True, False])
def test_concurrent_consumption_of_an_ordered_queue_is_a_violation(audit: Audit, gone: bool) -> None:
    consume(audit, 1.0, "o/1", 0, queue=ORDERED, steps="B")
    if gone:
        audit.report(Report(1.1, "one", Step.GONE))
    consume(audit, 1.2, "o/1", 0, queue=ORDERED, by="two")
    assert faults(audit) == [
        "two began o/1 at offset 0 of queue 1 of ordered on broker-a while one was still at work on offset 0"
    ] * (not gone)


def test_unordered_queues_may_be_consumed_concurrently(audit: Audit) -> None:
    consume(audit, 1.0, "p/1", 0, steps="B")
    consume(audit, 1.2, "p/2", 1, by="two")
    assert faults(audit) == []


def test_a_report_can_be_pickled() -> None:
    report = Report(12.345678, "one", Step.END, ORDERED, 4711, MessageId("o3", 17))
    assert report_of(line_of(report).decode(), "one") == report
