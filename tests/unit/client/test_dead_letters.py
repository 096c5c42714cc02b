"""Where dead letters came from, and which of them have been resent."""

import asyncio

from rocketmq_py.client import dead_letters
from rocketmq_py.model import MessageQueue
from tests.unit.cli.memory_admin import MemoryAdmin
from tests.unit.cli.messages import message

Q0, Q1 = MessageQueue("%DLQ%g", "broker-a", 0), MessageQueue("%DLQ%g", "broker-a", 1)


def test_a_dead_letter_of_java_names_its_origin():
    assert dead_letters.origin_of(message(DLQ_ORIGIN_TOPIC="orders")) == "orders"
    assert dead_letters.origin_of(message()) is None


def test_the_topic_of_a_retry_goes_first():
    assert dead_letters.origin_of(message(DLQ_ORIGIN_TOPIC="%RETRY%g", RETRY_TOPIC="orders")) == "orders"


def test_progress_is_an_offset_of_the_group_of_tools():
    admin = MemoryAdmin()
    assert asyncio.run(dead_letters.resent_to(admin, Q0)) is None
    asyncio.run(dead_letters.mark_resent(admin, Q0, 7))
    assert admin.changes == [("set_group_offset", "TOOLS_CONSUMER", Q0, 7)]
    assert asyncio.run(dead_letters.resent_to(admin, Q0)) == 7
    assert asyncio.run(dead_letters.resent_to(admin, Q1)) is None


def test_a_lock_is_renewed_long_before_it_expires():
    assert dead_letters.RENEW_SECONDS <= 60 / 2
