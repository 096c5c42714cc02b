"""Quick ways to decode topics give what the general one gives."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.bodies.topic import TopicConfig, TopicConfigTable, convert_topics, decode_topic
from tests.unit.protocol.defaults import defaults

GOOD = [
    '{"topicName":"a","readQueueNums":7,"attributes":{"queue.type":"BatchCQ"},"order":true,"unknown":[1]}',
    '{"topicName":"a","readQueueNums":"7","attributes":null,"perm":null}',
    '{"topicName":"a","readQueueNums":7.0,"order":"true"}',
    '{"topicName":"a","topicFilterType":1}',
    '{"topicName":5,"attributes":{"x":null,"y":5}}',
]
BAD = ["7", "null", "{}", '{"topicName":"a","readQueueNums":1e12}', '{"topicName":"a","attributes":[]}']


@pytest.mark.parametrize("text", GOOD)
def test_a_topic(text):
    wanted = TopicConfig.decode(text.encode())
    assert decode_topic(text.encode()) == wanted
    tree = {"a": msgspec.json.decode(text), "b": {"topicName": "b"}}
    assert convert_topics(tree) == {"a": wanted, "b": TopicConfig(topic_name="b")}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_topic_is_refused_as_by_the_general_way(text):
    with pytest.raises(BadHeader) as general:
        TopicConfig.decode(text.encode())
    with pytest.raises(BadHeader) as quick:
        decode_topic(text.encode())
    assert str(quick.value) == str(general.value)


def test_a_table_that_is_none_is_refused():
    with pytest.raises(BadHeader) as general:
        TopicConfigTable.convert({"topicConfigTable": [1]})
    with pytest.raises(BadHeader) as quick:
        convert_topics([1])
    assert str(quick.value) == str(general.value)


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (TopicConfig, {"readQueueNums": 16, "writeQueueNums": 16, "perm": 6, "topicSysFlag": 0, "order": False}),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected
