"""Properties of requests and replies, and how replies complete requests."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rocketmq_py import ClosedError, ConfigError, Message, MessageExt, MessageIllegal, reply
from rocketmq_py.client.producer.request_reply import PendingRequests, request_of
from rocketmq_py.core.producer.outgoing_message import Packer, SendHead
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.properties import encode_properties
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.ids import UniqueKeys

ASKED = {"CLUSTER": "c", "REPLY_TO_CLIENT": "me", "CORRELATION_ID": "7", "TTL": "3000"}


def received(properties: dict[str, str], body: bytes = b"") -> MessageExt:
    head = RecordHead(0, 0, 0, 0, 0, 0, 0, 0, 0, b"\x7f\0\0\1\0\0\0\1", 0, b"\x7f\0\0\1\0\0\0\1", 0, 0, len(body))
    return MessageExt(head, "t", body, encode_properties(properties))


def sent(message: Message) -> Command:
    queue = MessageQueue(message.topic, "broker-a", 0)
    outgoing = Packer(UniqueKeys(bytes(4), 1, 1)).pack(message, 1)
    [frame] = FrameDecoder().feed(outgoing.frame(SendHead("p", queue, "TBW102", 4), 1))
    return decode_command(frame)


def test_a_reply_goes_to_the_client_of_the_request() -> None:
    answer = reply(received(ASKED), "done")
    assert (answer.topic, answer.body) == ("c_REPLY_TOPIC", b"done")
    back = {name: ASKED[name] for name in ("REPLY_TO_CLIENT", "CORRELATION_ID", "TTL")}
    assert answer.properties == {"WAIT": "true", "MSG_TYPE": "reply", **back}
    assert sent(answer).code == 325


def test_only_replies_are_sent_as_replies() -> None:
    assert sent(Message("t", b"x", properties={"MSG_TYPE": "other"})).code == 310
    assert sent(Message("c_REPLY_TOPIC", b"x")).code == 310


@pytest.mark.parametrize("missing", ["CLUSTER", "REPLY_TO_CLIENT", "CORRELATION_ID"])
def test_a_message_that_is_no_request_cannot_be_replied_to(missing: str) -> None:
    with pytest.raises(MessageIllegal, match=f"has no property {missing}; its sender must use request"):
        reply(received({name: value for name, value in ASKED.items() if name != missing}), b"x")


def test_a_request_is_a_copy_with_an_id_of_its_own() -> None:
    message = Message("t", b"x", tags="A", flag=3)
    message.properties["UNIQ_KEY"] = "u"
    before = dict(message.properties)
    one, two = request_of(message, "me", 2.5), request_of(message, "me", 0.0001)
    assert message.properties == before
    assert (one.topic, one.body, one.tags, one.flag, one.msg_id) == ("t", b"x", "A", 3, None)
    assert (one.properties["REPLY_TO_CLIENT"], one.properties["TTL"], two.properties["TTL"]) == ("me", "2500", "1")
    assert one.properties["CORRELATION_ID"] != two.properties["CORRELATION_ID"]


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_request_with_a_timeout_of_zero_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigError, match="leaves no time for a reply"):
        request_of(Message("t", b"x"), "me", timeout)


def test_a_reply_completes_the_request_with_its_id(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        pending = PendingRequests("producer p")
        request, late = (request_of(Message("t", b"x"), "me", 3) for _ in range(2))
        waiter = pending.expect(request)
        answer = received({}, b"y")
        assert not pending.came("another", answer)
        assert pending.came(request.properties["CORRELATION_ID"], answer)
        assert await waiter is answer
        pending.expect(late)
        pending.end(late)
        with caplog.at_level(logging.WARNING):
            assert pending.came(late.properties["CORRELATION_ID"], answer)
        assert not pending.came(late.properties["CORRELATION_ID"], answer)

    asyncio.run(scenario())
    [line] = caplog.messages
    assert "to topic t came from 127.0.0.1:1" in line
    assert "after the request had timed out" in line


async def test_close_fails_open_requests() -> None:
    pending = PendingRequests("producer p")
    waiter = pending.expect(request_of(Message("t", b"x"), "me", 3))
    pending.close()
    with pytest.raises(ClosedError, match="producer p is closed: it can receive no reply"):
        await waiter
    with pytest.raises(ClosedError):
        pending.expect(request_of(Message("t", b"x"), "me", 3))
