"""Sends: checks, stored records, answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.model import MessageExt
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server import Peer
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.record import decode_record, record_properties
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import send

BODY = b"hello"
REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def stored(running: InProcess, topic: str = "t", queue: int = 0, offset: int = 0) -> MessageExt:
    raw = running.services.store.record_at_queue(topic, queue, offset)
    assert raw is not None
    return decode_record(raw)


def test_a_first_send_creates_its_topic_and_is_stored(running: InProcess, client: Client) -> None:
    answer = client.ask(Code.SEND_MESSAGE_V2, send(properties={"TAGS": "A", "UNIQ_KEY": "U1"}, flag=7), BODY)
    assert (answer.code, answer.remark) == (0, None)
    assert answer.ext == {
        "msgId": "7F00000100002A9F" + "0" * 16, "queueId": "0", "queueOffset": "0", "transactionId": "U1", **REGION,
    }  # fmt: skip
    topic = running.services.topics.get("t")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (4, 4, 6)
    message = stored(running)
    assert (message.body, message.flag, message.tags, message.msg_id) == (BODY, 7, "A", "U1")
    assert message.born_host == client.peer.address
    assert message.store_timestamp == START_MS
    assert message.properties == {"TAGS": "A", "UNIQ_KEY": "U1", "CLUSTER": "DefaultCluster", **REGION}


def test_a_unique_key_is_made_when_there_is_none(running: InProcess, client: Client) -> None:
    answer = client.ask(Code.SEND_MESSAGE_V2, send(), BODY)
    assert len(answer.ext["transactionId"]) == 32
    assert stored(running).msg_id == answer.ext["transactionId"]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("A\x011\x02B\x012", {"A": "1", "B": "2"}),
        ("\x02A\x011\x02", {"A": "1"}),
        ("A\x01\x02B\x012\x02", {"B": "2"}),
        ("POP_CK\x01x\x02A\x011\x02", {"A": "1"}),
        ("MSG_REGION\x01elsewhere\x02CLUSTER\x01c\x02TRACE_ON\x01false\x02", {}),
        ("MYTAGS\x01no\x02XKEYS\x01no\x02NO_UNIQ_KEY\x01no\x02", {"MYTAGS": "no", "XKEYS": "no", "NO_UNIQ_KEY": "no"}),
        ("MYTAGS\x01no\x02TAGS\x01yes\x02", {"MYTAGS": "no", "TAGS": "yes"}),
        ("", {}),
    ],
)
def test_malformed_properties_are_stored_as_java_stores_them(
    running: InProcess, client: Client, sent: str, kept: dict[str, str]
) -> None:
    answer = client.ask(Code.SEND_MESSAGE_V2, _raw(sent), BODY)
    added = {"UNIQ_KEY": answer.ext["transactionId"], "CLUSTER": "DefaultCluster", **REGION}
    assert stored(running).properties == {**kept, **added}
    [(_, _, code)] = running.services.store.queue_entries("t", 0, 0, 1)
    assert (code != 0) == ("TAGS" in kept)


def _raw(properties: str) -> Any:
    header = send()
    header.properties = properties
    return header


def test_absent_properties_are_stored_as_empty(running: InProcess, client: Client) -> None:
    header = send()
    header.properties = None
    assert client.ask(Code.SEND_MESSAGE_V2, header, BODY).code == 0
    assert set(stored(running).properties) == {"UNIQ_KEY", "CLUSTER", *REGION}


def test_messages_are_found_by_key(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"KEYS": "k1 k2", "UNIQ_KEY": "U1"}), BODY)
    for key in ("k1", "k2", "U1"):
        assert running.services.store.query("t", key, 8, 0, START_MS + 1).count == 1


def test_a_negative_queue_id_lets_the_broker_choose(running: InProcess, client: Client) -> None:
    queues = {int(client.ask(Code.SEND_MESSAGE_V2, send(queue_id=-1), BODY).ext["queueId"]) for _ in range(64)}
    assert queues == {0, 1, 2, 3}
    assert running.services.store.queue_range("t", 0)[1] > 0


@pytest.mark.parametrize(
    ("header", "code", "words"),
    [
        (send("no topic!"), 29, "contains illegal characters, allowing only"),
        (send(" "), 29, "The specified topic is blank."),
        (send("x" * 128), 29, "is longer than topic max length: 127"),
        (send("%RETRY%" + "x" * 249), 29, "it's longer than topic max length: 255"),
        (send("SCHEDULE_TOPIC_XXXX"), 16, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."),
        (send("SELF_TEST_TOPIC"), 16, "is forbidden."),
        (send(default_topic="nothing"), 17, "topic[t] not exist, apply first please!"),
        (send(queue_id=77), 29, "request queueId[77] is illegal, TopicConfig [topicName=t, readQueueNums=4"),
        (send(sys_flag=4), 13, "its properties lack TRAN_MSG"),
        (send(properties={"TIMER_DELAY_SEC": "5s"}), 13, "timer message illegal, the delay time should not be bigger"),
        (send(properties={"INNER_NUM": "5"}), 13, "the message is illegal"),
        (send(sys_flag=0x80), 13, "the message is illegal"),
        (send(properties={"big": "x" * 32767}), 13, "msg properties length limit 32KB"),
    ],
    ids=lambda value: getattr(value, "topic", None) and f"{value.topic[:20]}",
)
def test_invalid_sends_are_refused(client: Client, header: Any, code: int, words: str) -> None:
    answer = client.ask(Code.SEND_MESSAGE_V2, header, BODY)
    assert answer.code == code
    assert words in (answer.remark or "")
    assert answer.ext == REGION


@pytest.mark.parametrize("sys_flag", [0, 4], ids=["plain", "half"])
def test_stored_properties_have_at_most_32767_bytes(running: InProcess, client: Client, sys_flag: int) -> None:
    """Java writes their length as a short."""

    def sent(padding: int) -> int:
        properties = {"UNIQ_KEY": "U", "TRAN_MSG": str(bool(sys_flag)).lower(), "big": "x" * padding}
        return client.ask(Code.SEND_MESSAGE_V2, send(properties=properties, sys_flag=sys_flag), BODY).code

    def size(offset: int) -> int:
        topic = "RMQ_SYS_TRANS_HALF_TOPIC" if sys_flag else "t"
        raw = running.services.store.record_at_queue(topic, 0, offset)
        assert raw is not None
        return len(record_properties(raw))

    assert sent(1) == 0
    most = 32_767 - size(0) + 1
    assert (sent(most), sent(most + 1)) == (0, 13)
    assert size(1) == 32_767


@pytest.mark.parametrize("size", [0, 4 * 1024 * 1024 + 1])
@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
def test_empty_and_too_large_bodies_are_refused(running: InProcess, client: Client, size: int, code: Code) -> None:
    answer = client.ask(code, send(batch=code == Code.SEND_BATCH_MESSAGE), b"x" * size)
    assert answer.code == 13
    assert "msg body length limit 4194304B" in (answer.remark or "")
    assert running.services.store.queue_range("t", 0) == (0, 0)
    assert client.ask(Code.SEND_MESSAGE_V2, send(), BODY).code == 0


def test_topics_are_not_created_when_that_is_switched_off(tmp_path: Path) -> None:
    with broker(tmp_path, auto_create_topic_enable=False) as running:
        assert running.connect().ask(Code.SEND_MESSAGE_V2, send(), BODY).code == 17


def test_a_broker_without_write_permission_refuses_order_topics(tmp_path: Path) -> None:
    with broker(tmp_path, broker_permission=4) as running:
        running.services.topics.put([TopicConfig(topic_name="t", order=True), TopicConfig(topic_name="u")])
        client = running.connect()
        answer = client.ask(Code.SEND_MESSAGE_V2, send(), BODY)
        assert (answer.code, answer.remark) == (16, "the broker[127.0.0.1] sending message is forbidden")
        assert client.ask(Code.SEND_MESSAGE_V2, send("u"), BODY).code == 0


def test_a_cached_target_is_dropped_when_the_topic_changes(running: InProcess, client: Client) -> None:
    assert client.ask(Code.SEND_MESSAGE_V2, send(queue_id=3), BODY).code == 0
    running.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=1, write_queue_nums=1)])
    assert client.ask(Code.SEND_MESSAGE_V2, send(queue_id=3), BODY).code == 29


def test_a_multi_tag_topic_marks_its_messages(running: InProcess, client: Client) -> None:
    running.services.topics.put([TopicConfig(topic_name="t", topic_filter_type="MULTI_TAG")])
    client.ask(Code.SEND_MESSAGE_V2, send(), BODY)
    assert stored(running).sys_flag == 2


# -- batches


def batch(*properties: str) -> bytes:
    return encode_batch((0, b"body %d" % i, text.encode()) for i, text in enumerate(properties))


def test_a_batch_is_stored_message_by_message(running: InProcess, client: Client) -> None:
    body = batch("TAGS\x01A\x02KEYS\x01k0\x02UNIQ_KEY\x01u0\x02", "TAGS\x01B\x02UNIQ_KEY\x01u1\x02", "")
    header = send(properties={"UNIQ_KEY": "whole", "WAIT": "true"}, batch=True)
    answer = client.ask(Code.SEND_BATCH_MESSAGE, header, body)
    assert answer.code == 0
    assert answer.ext["transactionId"] == "whole"
    assert answer.ext["queueOffset"] == "0"
    ids = answer.ext["msgId"].split(",")
    messages = [stored(running, offset=i) for i in range(3)]
    assert [message.offset_msg_id for message in messages] == ids
    assert [message.body for message in messages] == [b"body 0", b"body 1", b"body 2"]
    assert messages[0].properties == {"TAGS": "A", "KEYS": "k0", "UNIQ_KEY": "u0"}
    codes = [code for _, _, code in running.services.store.queue_entries("t", 0, 0, 3)]
    assert codes == [65, 66, 0]


def test_the_header_decides_what_is_a_batch(running: InProcess, client: Client) -> None:
    assert client.ask(Code.SEND_MESSAGE_V2, send(batch=True), batch("", "")).code == 0
    assert running.services.store.queue_range("t", 0) == (0, 2)
    assert client.ask(Code.SEND_BATCH_MESSAGE, send(), BODY).code == 0
    assert running.services.store.queue_range("t", 0) == (0, 3)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (send("%RETRY%g", batch=True), "batch request does not support retry group %RETRY%g"),
        (send("%DLQ%" + "x" * 130, batch=True), "message topic length too long 135"),
        (send(batch=True, properties={"DELAY": "3"}), "the message is illegal"),
        (send(batch=True, sys_flag=4), "the message is illegal"),
    ],
)
def test_invalid_batches_are_refused(client: Client, header: Any, words: str) -> None:
    answer = client.ask(Code.SEND_BATCH_MESSAGE, header, batch(""))
    assert answer.code == 13
    assert words in (answer.remark or "")


def test_a_body_that_is_no_batch_is_refused_and_nothing_stored(running: InProcess, client: Client) -> None:
    answer = client.ask(Code.SEND_BATCH_MESSAGE, send(batch=True), b"this is no batch at all")
    assert answer.code == 13
    assert running.services.store.queue_range("t", 0) == (0, 0)


@pytest.mark.parametrize("batched", [False, True])
def test_a_client_cannot_claim_a_host_of_another_size(running: InProcess, client: Client, batched: bool) -> None:
    """The bits for IPv6 hosts say how a record is laid out: only what is stored may set them."""
    code, body = (Code.SEND_BATCH_MESSAGE, batch("")) if batched else (Code.SEND_MESSAGE_V2, BODY)
    assert client.ask(code, send(sys_flag=0x30 | 0x100, batch=batched), body).code == 0
    assert stored(running).sys_flag == 0x100
    assert stored(running).born_host == client.peer.address


def test_an_ipv6_sender_is_stored(running: InProcess) -> None:
    client = running.connect()
    client.peer = Peer(("2001:db8::7", 50_000), ("::1", 10911))
    assert client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), BODY).code == 0
    running.turn(1_000)
    assert stored(running).born_host == "[2001:db8:0:0:0:0:0:7]:50000"


@pytest.mark.parametrize("field", ["flag", "born_timestamp", "reconsume_times"])
def test_a_number_too_large_for_its_field_stores_nothing(running: InProcess, client: Client, field: str) -> None:
    answer = client.ask(Code.SEND_MESSAGE_V2, send(**{field: 1 << 70}), BODY)
    assert answer.code == 1
    assert client.ask(Code.SEND_MESSAGE_V2, send(), BODY).ext["queueOffset"] == "0"
    assert stored(running).body == BODY


@pytest.mark.parametrize(("size", "code"), [(32_000, 0), (33_000, 13)])
def test_properties_are_limited_also_where_the_queue_is_known(client: Client, size: int, code: int) -> None:
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"x").code == 0
    answer = client.ask(Code.SEND_MESSAGE_V2, send(properties={"p": "v" * size}), b"x")
    assert answer.code == code, answer.remark
