"""The cost of deleting a topic or a group does not depend on how many others exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.group import DeleteGroup
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.store.config.config_journal import JournaledFile
from tests.unit.broker.harness import Client, broker
from tests.unit.broker.requests import pull, send
from tests.work import steps

FEW, MANY = 10, 150


def delete_topic(client: Client, number: int) -> None:
    assert client.ask_task(Code.DELETE_TOPIC_IN_BROKER, TopicName(topic=f"t-{number}")).code == 0


def delete_group(client: Client, number: int) -> None:
    group = DeleteGroup(group_name=f"g-{number}", clean_offset=True)
    assert client.ask(Code.DELETE_SUBSCRIPTIONGROUP, group).code == 0


@pytest.fixture(autouse=True)
def in_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes go to the journals; how often tables are written as a whole is a matter of time."""
    monkeypatch.setattr(JournaledFile, "_is_due", False)


def work_among(count: int, root: Path, delete: Callable[[Client, int], None]) -> int:
    """What a deletion takes where there are so many topics, each with a message that a group of its own has pulled.

    It is the least of several: a deletion waits for a thread, and periodic work of the broker may run meanwhile.
    """
    with broker(root / str(count)) as running:
        client = running.connect()
        for number in range(count):
            topic, group = f"t-{number}", f"g-{number}"
            assert client.ask(Code.SEND_MESSAGE_V2, send(topic, default_topic_queue_nums=1), b"body").code == 0
            assert client.ask(Code.PULL_MESSAGE, pull(topic, consumer_group=group)).code == 0
            running.services.offsets.commit(group, topic, 0, 1, "c")
        delete_topic(client, 3)  # the first such request tells name servers of all topics
        return min(steps(lambda number=number: delete(client, number)) for number in range(4, 9))


@pytest.mark.parametrize("delete", [delete_topic, delete_group])
def test_deleting_a_topic_costs_nothing_for_others(tmp_path: Path, delete: Callable[[Client, int], None]) -> None:
    assert work_among(MANY, tmp_path, delete) < 1.2 * work_among(FEW, tmp_path, delete)
