"""Messages, topics, groups and lags as rows; options as what they mean. Nothing is asked of a cluster."""

import click
import pytest

from rocketmq_py.cli.cluster import broker_row, first_rate
from rocketmq_py.cli.dlq import resend, source
from rocketmq_py.cli.group import commands, lag, reset
from rocketmq_py.cli.group.lag import LagSnapshot
from rocketmq_py.cli.message import trace
from rocketmq_py.cli.message.rows import (
    decode_body,
    encode_body,
    in_short,
    message_of_row,
    message_row,
    one_line,
    own_properties,
    parse_properties,
    tail_line,
)
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.cli.queues import parse_queues
from rocketmq_py.cli.topic import commands as topic_commands
from rocketmq_py.model import MessageExt, MessageQueue, RecordHead
from rocketmq_py.properties import encode_properties
from rocketmq_py.protocol.bodies.admin import OffsetWrapper
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection, SubscriptionData
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.wire.record import pack_host

HOST = pack_host("10.0.0.1", 10911)
Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def message(body=b"hello", topic="t", queue=0, offset=5, **properties):
    head = RecordHead(100, 0, 0, queue, 7, offset, 1024, 0, 1_700_000_000_000, HOST, 1_700_000_000_001, HOST, 2, 0, 5)
    return MessageExt(tuple(head), topic, body, encode_properties(properties), "broker-a")


# -- messages


def test_a_message_becomes_a_row():
    row = message_row(message(TAGS="a", KEYS="k1 k2", UNIQ_KEY="ID", x="y"))
    assert row == {
        "topic": "t", "broker": "broker-a", "queue": 0, "offset": 5, "msgId": "ID",
        "offsetMsgId": "0A00000100002A9F0000000000000400", "tags": "a", "keys": "k1 k2", "stored": 1_700_000_000_001,
        "born": 1_700_000_000_000, "storeHost": "10.0.0.1:10911", "bornHost": "10.0.0.1:10911", "reconsumeTimes": 2,
        "logOffset": 1024, "size": 100, "properties": {"KEYS": "k1 k2", "TAGS": "a", "UNIQ_KEY": "ID", "x": "y"},
        "bodyEncoding": "text", "body": "hello",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "body", "used", "text"),
    [
        ("auto", "grün".encode(), "text", "grün"),
        ("auto", b"\xff\x00", "base64", "/wA="),
        ("text", b"a\xff", "text", "a�"),
        ("hex", b"\xff\x00", "hex", "ff00"),
        ("base64", b"a", "base64", "YQ=="),
    ],
)
def test_bodies_are_shown_as_text_or_base64(encoding, body, used, text):
    assert encode_body(body, encoding) == (used, text)
    if "�" not in text:
        assert decode_body({"body": text, "bodyEncoding": used}) == body


@pytest.mark.parametrize(
    "row", [{"body": 1}, {"body": "%", "bodyEncoding": "base64"}, {"body": "x", "bodyEncoding": "hex"},
            {"body": "", "bodyEncoding": "rot13"}, {"properties": ["x"]}]
)  # fmt: skip
def test_a_malformed_row_is_refused(row):
    with pytest.raises(ValueError):
        message_of_row("t", row)


def test_a_row_is_read_again_without_what_clients_and_brokers_set():
    row = message_row(message(b"\xff", TAGS="a", KEYS="k", UNIQ_KEY="ID", RETRY_TOPIC="o", DELAY="3", x="y"))
    again = message_of_row("other", row)
    assert (again.topic, again.body, again.tags, again.keys) == ("other", b"\xff", "a", "k")
    assert again.properties == {"x": "y", "TAGS": "a", "KEYS": "k", "WAIT": "true"}
    assert message_of_row("t", {"body": "b", "properties": {"__SHARDINGKEY": "s"}}).sharding_key == "s"


def test_a_message_is_formatted_on_one_line():
    line = tail_line(message_row(message(b"one\ntwo\x1b[31m", TAGS="a")))
    assert line == f"{show_time(1_700_000_000_001)}  broker-a:0+5  a  -  one\\ntwo\\x1b[31m"
    assert one_line("x" * 100, 3) == "xxx…"
    assert in_short(message_row(message()))["stored"] == show_time(1_700_000_000_001)


def test_property_options_are_parsed():
    assert parse_properties(("a=1", "b=x=y")) == {"a": "1", "b": "x=y"}
    with pytest.raises(click.BadParameter, match="no property NAME=VALUE"):
        parse_properties(("a",))
    with pytest.raises(click.BadParameter, match="set by clients and brokers"):
        parse_properties(("TAGS=a",))
    assert own_properties({"TAGS": "a", "mine": "1", "UNIQ_KEY": "x"}) == {"mine": "1"}


# -- topics and groups


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


def test_attribute_options_are_parsed():
    assert topic_commands.parse_attributes("fifo", ("a=b", "c=")) == {"message.type": "FIFO", "a": "b", "c": None}
    with pytest.raises(click.BadParameter):
        topic_commands.parse_attributes(None, ("a",))


def test_the_consume_mode_of_members_is_shown():
    push = ConsumerConnection(consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING")
    assert commands.consumption(push) == {"type": "push", "model": "clustering"}
    assert commands.consumption(None) == {"type": None, "model": None}
    odd = ConsumerConnection(consume_type="CONSUME_SOMEHOW")
    assert commands.consumption(odd) == {"type": "CONSUME_SOMEHOW", "model": None}


def test_members_and_subscriptions_are_shown():
    found = ConsumerConnection(
        connection_set=[ConnectionInfo(client_id="c", client_addr="h:1", language="JAVA", version=513)],
        subscription_table={"t": SubscriptionData(topic="t", sub_string="a || b")},
    )
    assert commands.member_rows(found) == [
        {"clientId": "c", "address": "h:1", "language": "JAVA", "version": "V5_5_0"}
    ]  # fmt: skip
    assert commands.subscription_rows(found) == [{"topic": "t", "filter": "a || b", "filterType": "TAG"}]
    assert commands.member_rows(None) == commands.subscription_rows(None) == []


def test_a_broker_becomes_a_row():
    state = {
        "putTps": "3.25 1 0", "getTransferredTps": "7.0 ", "msgPutTotalTodayNow": "9", "msgPutTotalTodayMorning": "4",
        "commitLogDiskRatio": "0.25", "bootTimestamp": "1", "brokerVersionDesc": "V5_5_0",
    }  # fmt: skip
    row = broker_row("c", "b", 1, "h:1", state, None)
    assert (row["role"], row["inTps"], row["outTps"], row["inToday"]) == ("slave", 3.2, 7.0, 5)
    assert (row["diskRatio"], row["outToday"], row["version"]) == (0.25, None, "V5_5_0")
    assert broker_row("c", "b", 0, "h:1", {}, "gone")["error"] == "gone"
    assert first_rate("") is None


# -- lag


def states(*pairs):
    return {q: OffsetWrapper(broker_offset=end, consumer_offset=at) for q, (at, end) in zip((Q0, Q1), pairs)}  # noqa: B905


def test_lag_and_rates_are_computed_from_two_snapshots():
    before = LagSnapshot(10.0, states((0, 100), (50, 50)))
    now = LagSnapshot(12.0, states((60, 110), (50, 50)))
    first, second = lag.lag_rows(now, before)
    assert (first["lag"], first["inPerS"], first["outPerS"]) == (50, 5.0, 30.0)
    assert (second["lag"], second["inPerS"], second["outPerS"]) == (0, 0.0, 0.0)
    assert lag.summary("g", [first, second]) == (
        "g: 50 messages wait in 2 queues, 5.0/s in, 30.0/s out, done in about 2s"
    )


def test_a_single_snapshot_has_no_rates():
    rows = lag.lag_rows(LagSnapshot(10.0, states((0, 3))), None)
    assert rows[0]["inPerS"] is None
    assert lag.summary("g", rows) == "g: 3 messages wait in 1 queues"
    new_queue = lag.lag_rows(LagSnapshot(12.0, states((0, 3), (0, 1))), LagSnapshot(10.0, states((0, 3))))
    assert [row["inPerS"] for row in new_queue] == [0.0, None]


def test_a_growing_lag_is_reported():
    rows = lag.lag_rows(LagSnapshot(2.0, states((1, 30))), LagSnapshot(1.0, states((0, 10))))
    assert lag.summary("g", rows).endswith("20.0/s in, 1.0/s out, it falls behind")


def test_a_reset_needs_exactly_one_target():
    with pytest.raises(click.UsageError, match="give one of --earliest"):
        reset.offset_choice(False, False, None, None, None)
    with pytest.raises(click.UsageError, match="give one of --earliest"):
        reset.offset_choice(True, False, None, 0, None)
    assert reset.offset_choice(False, False, None, 0, None) is not None


def test_queue_options_are_parsed():
    assert parse_queues(("broker-a:0", "b:c:12")) == {("broker-a", 0), ("b:c", 12)}
    for text in ("broker-a", ":1", "a:x"):
        with pytest.raises(click.BadParameter, match="is no queue BROKER:N"):
            parse_queues((text,))


# -- trace


def connected(tags=(), model="CLUSTERING"):
    subscription = SubscriptionData(topic="t", sub_string="||".join(tags) or "*", tags_set=list(tags))
    return ConsumerConnection(message_model=model, subscription_table={"t": subscription})


@pytest.mark.parametrize(
    ("members", "at", "retries", "dead", "status"),
    [
        (connected(), 5, [], [], "waiting"),
        (connected(), 6, [], [], "consumed"),
        (None, 6, [], [], "consumed"),
        (None, 0, [], [], "waiting"),
        (connected(["a"]), 6, [], [], "consumed"),
        (connected(["b"]), 6, [], [], "filtered"),
        (connected(model="BROADCASTING"), 0, [], [], "broadcast"),
        (connected(), 6, [message(topic="%RETRY%g", offset=0)], [], "retrying"),
        (connected(), 6, [message(topic="%RETRY%g", offset=0)], [message(topic="%DLQ%g")], "dead"),
    ],
)
def test_the_status_of_a_message_is_derived_from_offsets(members, at, retries, dead, status):
    progress = {Q0: OffsetWrapper(broker_offset=9, consumer_offset=at)}
    assert trace.status(message(TAGS="a"), members, progress, retries, dead) == status


def test_a_consumed_retry_counts_as_consumed():
    retry = message(topic="%RETRY%g", offset=0)
    progress = {retry.queue: OffsetWrapper(broker_offset=1, consumer_offset=1)}
    assert trace.status(message(), connected(), progress, [retry], []) == "consumed"


# -- dead letters


def test_a_dead_letter_is_revived_as_it_was():
    dead = message(
        b"b", topic="%DLQ%g", TAGS="a", KEYS="k", UNIQ_KEY="ID", RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="X", DELAY="0",
        mine="1", __SHARDINGKEY="s",
    )  # fmt: skip
    assert source.origin_of(dead) == "orders"
    again = resend.message_to_resend(dead, "g", resend.TOPIC)
    assert (again.topic, again.body, again.flag, again.sharding_key) == ("orders", b"b", 7, "s")
    assert again.properties == {
        "TAGS": "a", "KEYS": "k", "UNIQ_KEY": "ID", "mine": "1", "__SHARDINGKEY": "s", "WAIT": "true"
    }  # fmt: skip
    alone = resend.message_to_resend(dead, "g", resend.GROUP)
    assert (alone.topic, alone.properties["RETRY_TOPIC"]) == ("%RETRY%g", "orders")


def test_a_dead_letter_of_java_names_its_origin():
    assert source.origin_of(message(DLQ_ORIGIN_TOPIC="orders")) == "orders"
    assert source.origin_of(message()) is None
