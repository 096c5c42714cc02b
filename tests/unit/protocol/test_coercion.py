from __future__ import annotations

import pytest

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.bodies.client import HeartbeatData, SubscriptionData
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import BrokerData
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.group import GetConsumerRunningInfo
from rocketmq_py.protocol.headers.offset import QueueHeader, UpdateConsumerOffset
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.requests import BadRequest, RequestDecoder
from rocketmq_py.wire.frame import JSON, Frame

OFFSET = {"consumerGroup": "g", "topic": "t", "queueId": "0"}
HUGE = "1" + "0" * 400


def test_the_heartbeat_of_apaches_cpp_client() -> None:
    """It writes enums as their ordinals (ConsumerData::toJson)."""
    body = HeartbeatData.decode(
        b'{"clientID":"10.0.0.1@77","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g",'
        b'"messageModel":1,"subscriptionDataSet":[{"codeSet":["84"],"subString":"*","subVersion":"1700000000000",'
        b'"tagsSet":null,"topic":"t","classFilterMode":0}],"unitMode":0}],"producerDataSet":null}'
    )
    [consumer] = body.consumer_data_set
    assert consumer.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert consumer.subscription_data_set == [
        SubscriptionData(topic="t", code_set=[84], sub_version=1_700_000_000_000, class_filter_mode=False)
    ]


@pytest.mark.parametrize(("text", "topic"), [
    (b"{topicName:'t',perm:'4',order:1,}", TopicConfig(topic_name="t", perm=4, order=True)),
    (b'{"topicName":7,"perm":4.9,"attributes":{"a":1,"b":null}}',
     TopicConfig(topic_name="7", perm=4, attributes={"a": "1"})),
    (b'{"topicName":"t","topicFilterType":"multi_tag","perm":"+2"}',
     TopicConfig(topic_name="t", topic_filter_type="MULTI_TAG", perm=2)),
    (b'{"topicName":["t"],"topicFilterType":"new kind","order":"N","perm":"6.0"}', TopicConfig(topic_name="t")),
    (b'{"topicName":"t","perm":"true","readQueueNums":"FALSE","writeQueueNums":true}',
     TopicConfig(topic_name="t", perm=1, read_queue_nums=0, write_queue_nums=1)),
    (b'/* by hand */ {"topicName":"\\x41", // a letter\n "order":"y"}', TopicConfig(topic_name="A", order=True)),
])  # fmt: skip
def test_values_of_another_type_are_converted(text: bytes, topic: TopicConfig) -> None:
    assert TopicConfig.decode(text) == topic


def test_a_single_object_becomes_a_list() -> None:
    body = HeartbeatData.decode(b'{"clientID":3,"producerDataSet":{"groupName":"p"},"consumerDataSet":[null]}')
    assert body.client_id == "3"
    assert [one.group_name for one in body.producer_data_set] == ["p"]
    assert not body.consumer_data_set


@pytest.mark.parametrize("value", ["7", "true", "1.5"])
def test_a_single_number_is_no_list(value: str) -> None:
    """A single text or object is the only item of its list."""
    text = '{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","codeSet":%s}]}]}'
    with pytest.raises(BadHeader, match=r"codeSet is (7|[Tt]rue|'?1\.5'?): a list"):
        HeartbeatData.decode((text % value).encode())
    [one] = HeartbeatData.decode((text % '"7"').encode()).consumer_data_set
    assert one.subscription_data_set[0].code_set == [7]


def test_numeric_keys_may_be_quoted() -> None:
    for text in (
        b'{"brokerName":"b","brokerAddrs":{0:1,"1":"h:2"}}',
        b'{"brokerName":"b","brokerAddrs":{"0":"1",1:"h:2"}}',
    ):
        assert BrokerData.decode(text).broker_addrs == {0: "1", 1: "h:2"}


@pytest.mark.parametrize(("text", "why"), [
    (b'{"topicName":"t","perm":"six"}', r"perm is 'six': a whole number is expected"),
    (b'{"topicName":"t","perm":2147483648}', r"perm is 2147483648: a whole number from -2147483648 to 2147483647"),
    (b'{"topicName":"t","perm":1e400}', r"perm is '1e400': a whole number"),
    (b'{"topicName":"t","perm":NaN}', r"perm is 'NaN': a whole number"),
    (b'{"topicName":"t","perm":{}}', r"perm is \{\}: a whole number"),
    (b'{"topicName":"t","order":"yes"}', r"order is 'yes': true or false"),
    (b'{"topicName":"t","topicFilterType":2}', r"topicFilterType is 2: one of SINGLE_TAG, MULTI_TAG, or 0 to 1,"),
    (b'{"topicName":"t","attributes":[]}', r"attributes is \[\]: an object"),
    (b'{"perm":6}', r"missing required field `topicName`"),
    (b"[]", r"the value is \[\]: an object"),
])  # fmt: skip
def test_an_inconvertible_value_is_named(text: bytes, why: str) -> None:
    with pytest.raises(BadHeader, match=f"TopicConfig: .*{why}"):
        TopicConfig.decode(text)


def test_a_long_value_is_shortened_in_the_error() -> None:
    with pytest.raises(BadHeader) as caught:
        SubscriptionGroupConfig.decode(b'{"groupName":"g","retryMaxTimes":"' + b"x" * 100_000 + b'"}')
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("cls", "ext", "why"), [
    (UpdateConsumerOffset, {**OFFSET, "commitOffset": HUGE}, "commitOffset is '1000"),
    (UpdateConsumerOffset, {**OFFSET, "commitOffset": "9223372036854775808"}, "commitOffset is '9223372036854775808'"),
    (UpdateConsumerOffset, {**OFFSET, "commitOffset": "NaN"}, "commitOffset is 'NaN'"),
    (UpdateConsumerOffset, {**OFFSET, "commitOffset": "Infinity"}, "commitOffset is 'Infinity'"),
    (QueueHeader, {"topic": "t", "queueId": "2147483648"}, "queueId is '2147483648'"),
    (QueueHeader, {"topic": "t", "queueId": "\u00b2"}, "queueId is '\u00b2'"),
    (GetConsumerRunningInfo, {"consumerGroup": "g", "clientId": "c", "jstackEnable": "maybe"},
     "jstackEnable is 'maybe'"),
])  # fmt: skip
def test_a_header_field_beyond_its_range_is_refused_by_name(cls: type[Header], ext: dict[str, str], why: str) -> None:
    with pytest.raises(BadHeader) as caught:
        cls.from_ext(ext)
    assert str(caught.value).startswith(f"{cls.__name__}: {why}")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("offset", ["9223372036854775808", HUGE, "-9223372036854775809", '"' + HUGE + '"', "1e400"])
def test_a_number_beyond_64_bits_is_refused_on_either_path(offset: str) -> None:
    decoder = RequestDecoder([RequestCode.UPDATE_CONSUMER_OFFSET])
    text = (
        f'{{"code":15,"opaque":1,"extFields":{{"consumerGroup":"g","topic":"t","queueId":0,"commitOffset":{offset}}}}}'
    )
    with pytest.raises(BadRequest, match="commitOffset is"):
        decoder.decode(Frame(JSON, text.encode(), b""))


def test_numbers_and_booleans_are_read_in_the_forms_of_java() -> None:
    ext = {**OFFSET, "queueOffset": "+5", "maxMsgNums": "32.0", "sysFlag": "1e1", "commitOffset": "0",
           "suspendTimeoutMillis": "0", "subVersion": "0", "maxMsgBytes": "", "bulk": "TRUE"}  # fmt: skip
    header = PullMessage.from_ext(ext)
    assert (header.queue_offset, header.max_msg_nums, header.sys_flag) == (5, 32, 10)
    assert (header.max_msg_bytes, header.bulk) == (None, True)


@pytest.mark.parametrize(("text", "kind"), [("0", "SINGLE_TAG"), ("1", "MULTI_TAG"), ('"1"', "MULTI_TAG")])
def test_an_enum_may_be_given_by_its_ordinal(text: str, kind: str) -> None:
    assert TopicConfig.decode(b'{"topicName":"t","topicFilterType":%s}' % text.encode()).topic_filter_type == kind


@pytest.mark.parametrize("text", ["2", "-1", "true", "false"])
def test_another_ordinal_is_refused(text: str) -> None:
    with pytest.raises(BadHeader, match="one of SINGLE_TAG, MULTI_TAG, or 0 to 1,"):
        TopicConfig.decode(b'{"topicName":"t","topicFilterType":%s}' % text.encode())
