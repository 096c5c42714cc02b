"""Statistics: what a member that is missing means."""

from __future__ import annotations

import msgspec

from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import ConsumeStatsTable
from rocketmq_py.protocol.bodies.statistics import (
    BrokerProgress,
    ConsumeRates,
    ConsumerRunningInfo,
    ConsumeTimes,
    CounterWindow,
    HeldQueue,
    HeldRequests,
    ProducerInfo,
    QueueEntries,
    QueueEntry,
    TimerCount,
)
from tests.unit.protocol.defaults import defaults


def test_members_that_are_missing_are_zero_as_in_java() -> None:
    zeros = {
        HeldQueue: {"commitOffset": -1, "locked": False, "droped": False},
        ConsumeRates: {},
        CounterWindow: {},
        QueueEntry: {"msg": None},
        TimerCount: {},
        QueueEntries: {"queueData": []},
    }
    for body, others in zeros.items():
        decoded = body.decode(b"{}")
        known = dict.fromkeys(msgspec.to_builtins(decoded), 0) | others
        assert msgspec.to_builtins(decoded) == known, body


def test_numbers_that_are_missing_are_zero_beside_members_that_must_be_there() -> None:
    assert defaults(BrokerProgress) == {"totalDiff": 0, "totalInflightDiff": 0}
    assert defaults(ProducerInfo) == {"version": 0, "lastUpdateTimestamp": 0}
    assert defaults(HeldRequests) == {"total": 0, "isCut": False}


def test_times_of_a_queue_without_messages_are_javas() -> None:
    assert defaults(ConsumeTimes) == {
        "minTimeStamp": -1, "maxTimeStamp": -1, "consumeTimeStamp": -1, "delayTime": 0,
    }  # fmt: skip


KEY = '{"brokerName":"broker-a","queueId":1,"topic":"t"}'


def test_times_have_their_queue() -> None:
    times = ConsumeTimes.decode(f'{{"messageQueue":{KEY}}}'.encode())
    assert times.queue == MessageQueue("t", "broker-a", 1)


def test_the_progress_of_all_groups_is_by_queue() -> None:
    one, other = (ConsumeStatsTable(offset_table={KEY.replace("1", number): {"brokerOffset": 9}}) for number in "12")
    progress = BrokerProgress(consume_stats_list=[{"g": [one, other]}, {"h": [one]}]).groups()
    offsets = {
        group: [(queue.queue_id, found.broker_offset) for queue, found in queues.items()]
        for group, queues in progress.items()
    }
    assert offsets == {"g": [(1, 9), (2, 9)], "h": [(1, 9)]}


def test_a_consumer_tells_of_the_queues_that_it_owns_and_of_those_it_pops_from() -> None:
    pops = ",".join(f"{KEY.replace('1', number)}:{{}}" for number in "21")
    told = f'{{"mqTable":{{{KEY}:{{"commitOffset":7}}}},"mqPopTable":{{{pops}}}}}'
    found = ConsumerRunningInfo.decode(told.encode())
    assert {queue.queue_id: held.commit_offset for queue, held in found.queues().items()} == {1: 7}
    assert found.popped_queues() == [MessageQueue("t", "broker-a", 1), MessageQueue("t", "broker-a", 2)]
