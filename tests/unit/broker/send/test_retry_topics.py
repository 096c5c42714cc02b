"""Messages that a client sends to its group's retry topic: the dead-letter topic of those whose retries are used up."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.requests import send


@pytest.mark.parametrize("limit", [{"max_reconsume_times": 3}, {}])
@pytest.mark.parametrize(("times", "dead"), [(3, False), (4, True)])
def test_a_message_after_its_last_retry_goes_to_a_topic_of_one_queue(
    running: InProcess, client: Client, limit: dict[str, int], times: int, dead: bool
) -> None:
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=3)])
    assert client.ask(RequestCode.SEND_MESSAGE_V2, send("%RETRY%g", reconsume_times=times, **limit), b"x").code == 0
    topic = running.services.topics.get("%DLQ%g")
    assert (topic is not None) is dead
    if topic is not None:
        assert (topic.read_queue_nums, topic.write_queue_nums) == (1, 1)
        assert running.services.store.queue_range("%DLQ%g", 0) == (0, 1)
