"""Header fields that a peer leaves out."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.protocol.headers.pop import Notification, PollingInfo, PopMessage
from tests.unit.protocol.defaults import defaults


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (PopMessage, {"bornTime": 0, "order": False}),
        (Notification, {"bornTime": 0, "order": False}),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected


@pytest.mark.parametrize(("asked", "queue_id"), [("-7", -1), ("-2", -1), ("-1", -1), ("0", 0), ("3", 3)])
def test_a_negative_queue_id_stands_for_all_queues(asked: str, queue_id: int) -> None:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": asked, "pollTime": "0"}
    pop = PopMessage.from_ext({**fields, "maxMsgNums": "1", "invisibleTime": "1000", "initMode": "0"})
    assert [pop.queue_id, Notification.from_ext(fields).queue_id, PollingInfo.from_ext(fields).queue_id] == [
        queue_id
    ] * 3
