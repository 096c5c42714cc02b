"""Properties of requests and replies, and how replies complete requests."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from rocketmq_py import ClosedError, ConfigError, Message, MessageExt, MessageIllegal, reply
from rocketmq_py.aio import ClientInstance, Producer
from rocketmq_py.client.producer import request_reply
from rocketmq_py.client.producer.request_reply import PendingRequests, request_of
from rocketmq_py.core.producer.outgoing_message import Packer, SendHead
from rocketmq_py.errors import RequestTimeout
from rocketmq_py.model import MessageQueue, RecordHead, SendResult, SendStatus
from rocketmq_py.properties import encode_properties
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.ids import UniqueKeys
from tests.unit.client.scripted import ScriptedNetwork, route_answer, stored

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


HOSTS = {"bornHost": "10.0.0.1:40000", "storeHost": "10.0.0.2:10911", "bornTimestamp": "5", "storeTimestamp": "6"}


def pushed(correlation_id: str, body: bytes = b"y", sys_flag: int = 0) -> Command:
    """A reply as a broker pushes it."""
    ext = HOSTS | {
        "producerGroup": "g", "topic": "c_REPLY_TOPIC", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
        "queueId": "3", "sysFlag": str(sys_flag), "flag": "9", "reconsumeTimes": "2",
        "properties": f"CORRELATION_ID\x01{correlation_id}\x02",
    }  # fmt: skip
    return Command(326, ext=ext, body=body)


class Requester:
    group = "g"

    def __init__(self) -> None:
        self.pending = PendingRequests("producer p")


class Bystander:
    group = "other"


@pytest.mark.parametrize(("body", "sys_flag"), [(b"y", 0), (zlib.compress(b"y"), 1 | 0x300), (b"y", 4)])
def test_a_pushed_reply_goes_to_the_producer_that_waits(body: bytes, sys_flag: int) -> None:
    async def scenario() -> None:
        handlers: dict[int, Callable[[str, Command], Command]] = {}
        one, two = Requester(), Requester()
        instance = SimpleNamespace(
            members=[Bystander(), one, two], connections=SimpleNamespace(on_request=handlers.__setitem__)
        )
        request_reply.serve(instance)  # type: ignore[arg-type]
        request = request_of(Message("t", b"x"), "me", 3)
        waiter = two.pending.expect(request)
        assert handlers[326]("b:1", pushed(request.properties["CORRELATION_ID"], body, sys_flag)).code == 0
        found = await waiter
        assert (found.body, found.topic, found.queue_id, found.flag) == (b"y", "c_REPLY_TOPIC", 3, 9)
        assert (found.head.sys_flag, found.reconsume_times) == (sys_flag & ~1, 2)
        assert (found.born_timestamp, found.store_timestamp) == (5, 6)
        assert (found.born_host, found.store_host) == ("10.0.0.1:40000", "10.0.0.2:10911")
        assert abs(int(found.properties["ARRIVE_TIME"]) - time.time() * 1000) < 60_000

    asyncio.run(scenario())


def test_a_reply_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    handlers: dict[int, Callable[[str, Command], Command]] = {}
    instance = SimpleNamespace(members=[Requester()], connections=SimpleNamespace(on_request=handlers.__setitem__))
    request_reply.serve(instance)  # type: ignore[arg-type]
    assert handlers[326]("b:1", pushed("7")).code == 0
    [line] = caplog.messages
    assert "broker b:1 pushed a reply from 10.0.0.1:40000 that no request of this client waits for" in line


async def test_a_request_that_is_not_answered_says_how_far_it_came() -> None:
    request = request_of(Message("t", b"x"), "me", 3)
    assert "within 3 s: the request itself was not confirmed" in str(request_reply.unanswered(request, None, 3))
    result = SendResult(SendStatus.SEND_OK, "ID", MessageQueue("t", "b", 2), 5, "OFF")
    assert "within 0.5 s; it is stored as ID in " in str(request_reply.unanswered(request, result, 0.5))


class Replying:
    """A cluster whose consumer replies to each request, or does not."""

    def __init__(self, *, replies: bool) -> None:
        self.replies = replies
        self.network = ScriptedNetwork(self.answer)

    def answer(self, address: str, request: Command) -> Command | None:
        if request.code == 105:
            return route_answer({"b": 1} if request.ext["topic"] == "t" else None)
        if request.code == 310:
            properties = dict(one.split("\x01") for one in request.ext["i"].strip("\x02").split("\x02"))
            if self.replies:
                data = encode_command(pushed(properties["CORRELATION_ID"]))
                asyncio.get_running_loop().call_later(0.1, self.network.transports["b:1"].deliver, data)
            return stored(request)
        return Command(0)


@pytest.mark.parametrize("replies", [True, False])
def test_a_request_ends_with_its_reply_or_in_time(replies: bool) -> None:
    async def scenario() -> None:
        there = Replying(replies=replies)
        instance = ClientInstance("ns:1", timeout=1.0)
        there.network.carry(instance.connections)
        async with Producer("g", instance=instance) as producer:
            if replies:
                found = await producer.request(Message("t", b"x"), timeout=2.0)
                assert (found.body, found.topic) == (b"y", "c_REPLY_TOPIC")
                beats = there.network.codes().count(34)
                await producer.request(Message("t", b"x"))
                assert there.network.codes().count(34) == beats, "the broker knows the client"
            else:
                with pytest.raises(RequestTimeout, match="it is stored as"):
                    await producer.request(Message("t", b"x"), timeout=2.0)
            assert producer.topics() >= {"t", "_REPLY_TOPIC"}
            assert not producer.pending.came("nothing", received({}))
        await instance.stop()

    asyncio.run(scenario())


async def test_a_request_nobody_waits_for_any_more_is_not_reported_when_its_producer_closes() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    pending = PendingRequests("producer g")
    waiter = pending.expect(request_of(Message("t", b"x"), "me", 1.0))
    pending.close()
    await asyncio.sleep(0)
    del waiter
    assert reported == []
