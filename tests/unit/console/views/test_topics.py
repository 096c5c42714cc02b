"""Kinds of topics, and sums over brokers."""

from rocketmq_py.console.views.topics import config_rows, kind_of, last_stored, perm_text, selected, topic_row
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import TopicOffset
from rocketmq_py.protocol.bodies.topic import TopicConfig


def config(**more):
    return TopicConfig(topic_name="t", **more)


def test_kinds():
    kinds = {"t": "normal", "%RETRY%g": "retry", "%DLQ%g": "dead", "TBW102": "system", "inner": "system"}
    assert {topic: kind_of(topic, ["inner"]) for topic in kinds} == kinds
    assert kind_of("inner") == "normal"
    assert selected(kinds, ["inner"], "", "") == sorted(kinds)
    assert selected(kinds, ["inner"], "G", "dead") == ["%DLQ%g"]
    assert selected(["b", "Ab"], [], "B", "normal") == ["Ab", "b"]


def test_sums_over_brokers():
    configs = {
        "b": config(read_queue_nums=2, write_queue_nums=1, perm=6),
        "a": config(read_queue_nums=3, write_queue_nums=4, perm=4, attributes={"message.type": "DELAY"}),
    }
    row = topic_row("t", "normal", configs, {})
    assert row == {"topic": "t", "kind": "normal", "type": "DELAY", "brokers": 2, "readQueues": 5, "writeQueues": 5,
                   "perm": "r/rw", "messages": 0, "lastStored": None}  # fmt: skip
    assert [(one["broker"], one["perm"]) for one in config_rows(configs)] == [("a", "r"), ("b", "rw")]
    assert [perm_text(perm) for perm in (1, 8, 3)] == ["\N{EN DASH}", "\N{EN DASH}", "w"]


def test_the_newest_of_all_queues():
    queues = [MessageQueue("t", "b", number) for number in range(3)]
    times = {queue: TopicOffset(last_update_timestamp=time) for queue, time in zip(queues, (3, 9, 0), strict=True)}
    assert last_stored(times) == 9
    assert last_stored({}) is last_stored({queues[0]: TopicOffset()}) is None
