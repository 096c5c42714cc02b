"""Where dead letters are, where they came from, and which of them have been resent."""

import asyncio

import pytest

from rocketmq_py.cli.dlq import source
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.model import MessageQueue
from tests.unit.cli.memory_admin import MemoryAdmin
from tests.unit.cli.messages import message

Q0, Q1 = MessageQueue("%DLQ%g", "broker-a", 0), MessageQueue("%DLQ%g", "broker-a", 1)


def test_a_dead_letter_of_java_names_its_origin():
    assert source.origin_of(message(DLQ_ORIGIN_TOPIC="orders")) == "orders"
    assert source.origin_of(message()) is None


def test_the_topic_of_a_retry_goes_first():
    assert source.origin_of(message(DLQ_ORIGIN_TOPIC="%RETRY%g", RETRY_TOPIC="orders")) == "orders"


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


def test_progress_is_an_offset_of_the_group_of_tools():
    admin = MemoryAdmin()
    assert asyncio.run(source.resent_to(admin, Q0)) is None
    asyncio.run(source.mark_resent(admin, Q0, 7))
    assert admin.changes == [("set_group_offset", "TOOLS_CONSUMER", Q0, 7)]
    assert asyncio.run(source.resent_to(admin, Q0)) == 7
    assert asyncio.run(source.resent_to(admin, Q1)) is None
