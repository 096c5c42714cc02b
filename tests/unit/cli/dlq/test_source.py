"""Where dead letters are."""

import asyncio

import pytest

from rocketmq_py.cli.dlq import source
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.model import MessageQueue
from tests.unit.cli.memory_admin import MemoryAdmin
from tests.unit.cli.messages import message

Q0, Q1 = MessageQueue("%DLQ%g", "broker-a", 0), MessageQueue("%DLQ%g", "broker-a", 1)


def test_the_extent_of_each_queue_is_found():
    admin = MemoryAdmin()
    admin.add_topic("%DLQ%g", 2)
    admin.deleted_before[Q0] = 3
    admin.add_messages(message(topic="%DLQ%g", offset=4))
    assert asyncio.run(source.dead_letters(admin, "g")) == {Q0: (3, 5), Q1: (0, 0)}


def test_a_group_without_dead_letters_is_not_found():
    with pytest.raises(
        CommandFailure, match=r"group g has no dead letters\. 'rocketmq dlq ls' lists groups"
    ) as refused:
        asyncio.run(source.dead_letters(MemoryAdmin(), "g"))
    assert refused.value.exit_code == 3


def test_a_topic_that_is_not_readable_is_a_failure():
    admin = MemoryAdmin()
    admin.add_topic("%DLQ%g", perm=2)
    with pytest.raises(CommandFailure, match="rocketmq topic update '%DLQ%g' --perm rw") as refused:
        asyncio.run(source.dead_letters(admin, "g"))
    assert refused.value.exit_code == 1
