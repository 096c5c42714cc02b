"""Requests of the Spark source and sink, answered alike by our broker and by Java's."""

from __future__ import annotations

from rocketmq_py.arrow.remoting.fetch import READ_GROUP
from rocketmq_py.arrow.sink.targets import NoSuchQueue, refusal
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.offset import GetMaxOffset
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.protocol.names import MAX_MESSAGE_SIZE
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Side, eventually
from tests.server.rawpeer import RawPeer
from tests.unit.broker.requests import pull, send

MESSAGES = 100


def test_a_bulk_pull_needs_the_flag_and_our_broker(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, queues=1)
    with RawPeer(side.broker) as peer:
        for i in range(MESSAGES):
            assert peer.ask(Code.SEND_MESSAGE_V2, send(topic=topic).to_ext(), b"%d" % i).code == 0

        def pulled(offset: int, **more: bool) -> Command:
            header = pull(topic, offset, consumer_group=READ_GROUP, max_msg_nums=1024, **more)
            return peer.ask(Code.PULL_MESSAGE, header.to_ext())

        eventually(lambda: pulled(MESSAGES - 1).code, lambda code: code == ResponseCode.SUCCESS)  # dispatched
        plain, bulk = pulled(0), pulled(0, bulk=True)
    found = [[message.body for message in decode_records(answer.body)] for answer in (plain, bulk)]
    number = MESSAGES if side.name == "ours" else 32
    assert found == [[b"%d" % i for i in range(32)], [b"%d" % i for i in range(number)]]
    told, more = (PullResponse.from_ext(answer.ext) for answer in (plain, bulk))
    assert (told.next_begin_offset, more.next_begin_offset) == (32, number)
    assert (more.min_offset, more.max_offset) == (told.min_offset, told.max_offset) == (0, MESSAGES)


def test_both_ends_of_a_queue_need_the_flag_and_our_broker(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, queues=1)
    with RawPeer(side.broker) as peer:
        for i in range(3):
            assert peer.ask(Code.SEND_MESSAGE_V2, send(topic=topic).to_ext(), b"%d" % i).code == 0

        def ends(*, bounds: bool | None) -> dict[str, str]:
            return peer.ask(Code.GET_MAX_OFFSET, GetMaxOffset(topic=topic, queue_id=0, bounds=bounds).to_ext()).ext

        eventually(lambda: ends(bounds=None).get("offset"), lambda offset: offset == "3")
        assert "minOffset" not in ends(bounds=None)
        both = ends(bounds=True)
    assert both["offset"] == "3"
    assert both.get("minOffset") == ("0" if side.name == "ours" else None)


def test_missing_queues_and_too_long_messages_have_the_codes_of_java(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, queues=2)
    with RawPeer(side.broker) as peer:
        beyond = peer.ask(Code.SEND_MESSAGE_V2, send(topic=topic, queue_id=2).to_ext(), b"one")
        long = peer.ask(Code.SEND_MESSAGE_V2, send(topic=topic, queue_id=1).to_ext(), bytes(MAX_MESSAGE_SIZE + 1))
    assert beyond.code == ResponseCode.INVALID_PARAMETER
    assert beyond.remark is not None
    assert beyond.remark.startswith("request queueId[2] is illegal")
    assert isinstance(refusal(beyond, side.broker), NoSuchQueue)
    assert long.code == ResponseCode.MESSAGE_ILLEGAL
    assert not isinstance(refusal(long, side.broker), NoSuchQueue)
