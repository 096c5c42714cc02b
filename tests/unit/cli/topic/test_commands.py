"""Topics as rows, and attribute options."""

import click
import pytest

from rocketmq_py.cli.topic import commands as topic_commands
from rocketmq_py.protocol.bodies.topic import TopicConfig


def test_a_topic_listing_hides_internal_topics():
    system = {"DefaultCluster"}
    names = ["orders", "%RETRY%g", "%DLQ%g", "TBW102", "rmq_sys_x", "DefaultCluster"]
    assert [name for name in names if topic_commands.is_listed(name, None, system)] == ["orders"]
    assert [name for name in names if topic_commands.is_listed(name, None, ())] == names
    assert [name for name in names if topic_commands.is_listed(name, "%DLQ%*", system)] == ["%DLQ%g"]
    assert [name for name in names if topic_commands.is_listed(name, "*s", system)] == ["orders"]


def test_a_topic_on_two_brokers_is_one_row():
    config = TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=2, perm=6)
    narrow = TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=2, perm=4,
                         attributes={"message.type": "FIFO"})  # fmt: skip
    assert topic_commands.topic_row("t", {"b": narrow, "a": config}) == {
        "topic": "t", "brokers": ["a", "b"], "readQueues": 8, "writeQueues": 4, "perm": "r/rw", "type": "FIFO/NORMAL",
    }  # fmt: skip
    assert [topic_commands.permission(perm) for perm in (6, 4, 2, 0, 7)] == ["rw", "r", "w", "none", "rw"]


def test_permissions_have_the_numbers_of_the_protocol():
    assert topic_commands.PERMISSIONS == {"rw": 6, "r": 4, "w": 2, "none": 0}


def test_attribute_options_are_parsed():
    assert topic_commands.parse_attributes("fifo", ("a=b", "c=")) == {"message.type": "FIFO", "a": "b", "c": None}
    with pytest.raises(click.BadParameter):
        topic_commands.parse_attributes(None, ("a",))
