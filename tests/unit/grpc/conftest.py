from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from tests.unit.broker.harness import InProcess, broker
from tests.unit.grpc.calls import Calls


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    settings = {"enable_property_filter": True, "recall_message_enable": True, "transaction_check_interval": 1_000}
    with broker(tmp_path, **settings) as one:
        topics = one.services.topics
        topics.put(
            [
                TopicConfig(topic_name="t", read_queue_nums=2, write_queue_nums=2),
                *(
                    TopicConfig(
                        topic_name=kind.lower(),
                        read_queue_nums=1,
                        write_queue_nums=1,
                        attributes={"message.type": kind},
                    )
                    for kind in ("FIFO", "DELAY", "TRANSACTION", "PRIORITY")
                ),
            ]
        )
        one.services.groups.put([
            SubscriptionGroupConfig(group_name="orderly", consume_message_orderly=True),
            SubscriptionGroupConfig(group_name="once", retry_max_times=0),
        ])  # fmt: skip
        yield one


@pytest.fixture
def calls(running: InProcess) -> Calls:
    return Calls(running)
