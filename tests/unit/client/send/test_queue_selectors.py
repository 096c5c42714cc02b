from __future__ import annotations

import random
from collections import Counter

import pytest

from rocketmq_py.client.send.queue_selectors import (
    SelectByHash,
    SelectByMachineRoom,
    SelectByQueueId,
    SelectRandomly,
)
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import Message, MessageQueue

MESSAGE = Message("t", b"x")
QUEUES = [MessageQueue("t", broker, i) for broker in ("east@a", "west@a", "plain") for i in range(4)]


def test_one_key_selects_one_queue() -> None:
    select = SelectByHash()
    assert select(QUEUES, MESSAGE, "order-1") == select(QUEUES, MESSAGE, "order-1")
    assert select(QUEUES, MESSAGE, "polygenelubricants") == QUEUES[2**31 % 12], "its hash is the smallest int of Java"
    assert select(QUEUES, MESSAGE, -5) == QUEUES[5]


def test_random_selection_is_even() -> None:
    select = SelectRandomly(random.Random(7).randrange)
    counts = Counter(select(QUEUES, MESSAGE) for _ in range(12_000))
    assert len(counts) == 12
    assert all(800 < count < 1200 for count in counts.values())


def test_only_queues_of_the_rooms_are_selected() -> None:
    select = SelectByMachineRoom(frozenset({"west"}), SelectByHash())
    chosen = {select(QUEUES, MESSAGE, key) for key in range(100)}
    assert chosen == {queue for queue in QUEUES if queue.broker_name == "west@a"}


def test_without_a_queue_in_the_rooms_any_queue_is_selected() -> None:
    select = SelectByMachineRoom(frozenset({"north", "plain"}), SelectByHash())
    assert {select(QUEUES, MESSAGE, key) for key in range(100)} == set(QUEUES)


def test_a_queue_is_selected_by_its_number() -> None:
    assert SelectByQueueId()(QUEUES, MESSAGE, 2) == MessageQueue("t", "east@a", 2)
    assert SelectByQueueId("plain")(QUEUES, MESSAGE, 2) == MessageQueue("t", "plain", 2)
    with pytest.raises(ConfigError, match="no queue 4 of broker 'plain'"):
        SelectByQueueId("plain")(QUEUES, MESSAGE, 4)
