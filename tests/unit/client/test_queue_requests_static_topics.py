"""Clients of a static topic: requests about a logical queue go to the broker that leads it, also when it has moved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from rocketmq_py import ConsumeFromWhere
from rocketmq_py.aio import Admin, ClientInstance, Producer, PullConsumer, PushConsumer
from rocketmq_py.errors import NoRouteError, NotLeader
from rocketmq_py.model import Message, MessageExt, MessageQueue, RecordHead
from rocketmq_py.protocol.bodies.client import LockBatchRequest, LockBatchResponse
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.sys_flag import PULL_COMMIT_OFFSET
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import encode_record
from tests.unit.client.scripted import ScriptedNetwork, queue_of, route_answer, stored

TOPIC, RETRY, MOCK = "static", "%RETRY%g", "__syslo__global__"
QUEUE = MessageQueue(TOPIC, MOCK, 3)
PATIENCE = 120.0
SOON: dict[str, Any] = {"first_pull_delay": 0.001, "pull_delay_after_error": 0.001}
"""Seconds a consumer waits before pulls."""


class Brokers:
    """Brokers ``a`` and ``b``; ``leader`` leads the queues of the static topic, and the name server knows it.

    Offsets 0 and 1 are in a physical queue 0 of broker ``a``, offsets from 10,000 on in one of ``b``.
    """

    def __init__(self) -> None:
        self.leader = "a"
        self.led = {str(number): 0 for number in range(4)}
        self.network = ScriptedNetwork(self.answer)
        self.instance = ClientInstance("ns:1", timeout=5.0)
        self.network.carry(self.instance.connections)

    def _route(self) -> Command:
        mapping = {"topic": TOPIC, "bname": self.leader, "totalQueues": 4, "currIdMap": self.led, "epoch": 1}
        data = TopicRouteData(
            queue_datas=[QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6) for name in "ab"],
            broker_datas=[BrokerData(broker_name=name, broker_addrs={0: f"{name}:1"}) for name in "ab"],
            topic_queue_mapping_by_broker={self.leader: mapping},
        )
        return Command(0, body=data.encode())

    def answer(self, address: str, request: Command) -> Command | None:
        if request.code == Code.GET_ROUTEINFO_BY_TOPIC:
            return self._route() if request.ext["topic"] == TOPIC else route_answer({"a": 1})
        topic = request.ext.get("topic", request.ext.get("b"))
        if topic == TOPIC and address != f"{self.leader}:1" and request.code != Code.UPDATE_CONSUMER_OFFSET:
            return Command(ResponseCode.NOT_LEADER_FOR_QUEUE, remark=f"{address} does not lead it")
        if request.code == Code.PULL_MESSAGE:
            return self._pulled(request)
        return stored(request) if request.code == Code.SEND_MESSAGE_V2 else self._of_group(request)

    def _of_group(self, request: Command) -> Command:
        if request.code == Code.GET_CONSUMER_LIST_BY_GROUP:
            return Command(0, body=json.dumps({"consumerIdList": [self.instance.client_id]}).encode())
        if request.code == Code.LOCK_BATCH_MQ:
            wanted = LockBatchRequest.decode(request.body).mq_set
            return Command(0, body=LockBatchResponse(lock_ok_mq_set=wanted).encode())
        return Command(0, ext={"offset": "0"})

    def _pulled(self, request: Command) -> Command | None:
        offset, queue_id = int(request.ext["queueOffset"]), request.ext["queueId"]
        if request.ext["topic"] != TOPIC or queue_id != "3" or offset in (2, 10_001):
            return None  # on hold
        reached, delta = (2, 0) if offset < 2 else (10_001, 10_000)
        body = b"".join(record(physical) for physical in range(offset - delta, reached - delta))
        bounds = {"suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": str(reached)}
        return Command(0, ext={"nextBeginOffset": str(reached), "offsetDelta": str(delta), **bounds}, body=body)

    def asked(self, code: Code, **ext: str) -> list[tuple[str, Command]]:
        """The requests of a code with these fields, with the addresses they came to."""
        return [
            (where, request)
            for where, request in self.network.requests
            if request.code == code and all(request.ext.get(name) == value for name, value in ext.items())
        ]

    async def until(self, true: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := true()):
                self.network.asked.clear()
                await self.network.asked.wait()
        return found


def record(offset: int) -> bytes:
    head = RecordHead(0, 0, 0, 0, 0, offset, 1000 + offset, 0, 1, bytes(8), 2, bytes(8), 0, 0, 0)
    return encode_record(head, TOPIC, b"x", b"")


def scenario(body: Callable[[Brokers], Awaitable[None]]) -> None:
    async def main() -> None:
        brokers = Brokers()
        await body(brokers)
        await brokers.instance.stop()

    asyncio.run(main())


@pytest.mark.parametrize("given", [QUEUE, None], ids=["a given queue", "any queue"])
def test_a_message_follows_its_queue_to_the_next_broker(given: MessageQueue | None) -> None:
    async def body(brokers: Brokers) -> None:
        async with Producer("g", instance=brokers.instance, retries=0) as producer:
            result = await producer.send(Message(TOPIC, b"x"), QUEUE)
            assert result.queue == MessageQueue(TOPIC, "a", 3), "Java names the broker that stored it, too"
            brokers.leader = "b"
            result = await producer.send(Message(TOPIC, b"y"), given)
            assert (result.queue.broker_name, result.queue_offset) == ("b", 5)
        sent = brokers.network.sent()
        assert [where for where, _ in sent] == ["a:1", "a:1", "b:1"]
        assert queue_of(sent[1][1])._replace(broker_name="b") == queue_of(sent[2][1]), "the same queue"

    scenario(body)


def test_a_queue_that_nobody_leads_is_an_error_with_its_name() -> None:
    async def body(brokers: Brokers) -> None:
        async with Producer("g", instance=brokers.instance, retries=0) as producer:
            del brokers.led["1"]
            with pytest.raises(NoRouteError, match="__syslo__global__:1"):
                await producer.send(Message(TOPIC, b"x"), QUEUE._replace(queue_id=1))

    scenario(body)


def test_another_broker_takes_what_the_leader_of_a_queue_refuses() -> None:
    """The retries avoid the broker that leads the queue, not all queues of the pseudo broker."""

    async def body(brokers: Brokers) -> None:
        answer = brokers.network.answer

        def busy(address: str, request: Command) -> Command | None:
            if request.code == Code.GET_ROUTEINFO_BY_TOPIC:
                data = TopicRouteData.decode(brokers._route().body)
                data.topic_queue_mapping_by_broker = {
                    name: {"topic": TOPIC, "bname": name, "totalQueues": 2, "currIdMap": {str(number): 0}, "epoch": 1}
                    for number, name in enumerate("ab")
                }
                return Command(0, body=data.encode())
            if request.code == Code.SEND_MESSAGE_V2:
                return stored(request) if address == "b:1" else Command(ResponseCode.SYSTEM_BUSY)
            return answer(address, request)

        brokers.network.answer = busy
        async with Producer("g", instance=brokers.instance) as producer:
            results = [await producer.send(Message(TOPIC, b"x")) for _ in range(4)]
        assert {result.queue.broker_name for result in results} == {"b"}
        tried = [where for where, _ in brokers.network.sent()]
        assert "a:1" in tried
        assert ("a:1", "a:1") not in pairwise(tried), "after a comes b"

    scenario(body)


def test_tools_ask_the_broker_that_leads_a_queue() -> None:
    async def body(brokers: Brokers) -> None:
        async with Admin(instance=brokers.instance) as admin:
            assert await admin.queues(TOPIC) == [MessageQueue(TOPIC, MOCK, number) for number in range(4)]
            assert await admin.max_offset(QUEUE) == 0
            brokers.leader = "b"
            assert await admin.max_offset(QUEUE) == 0
            assert [where for where, _ in brokers.asked(Code.GET_MAX_OFFSET)] == ["a:1", "a:1", "b:1"]
            brokers.network.answer = lambda *_: Command(ResponseCode.NOT_LEADER_FOR_QUEUE)
            with pytest.raises(NoRouteError):
                await admin.max_offset(QUEUE)  # the name server refuses, too

    scenario(body)


@pytest.mark.filterwarnings("ignore:PullConsumer is deprecated")
def test_a_pull_follows_its_queue() -> None:
    async def body(brokers: Brokers) -> None:
        async with PullConsumer("g", instance=brokers.instance) as member:
            first = await member.pull(QUEUE, 0)
            brokers.leader = "b"
            second = await member.pull(QUEUE, 10_000)
        places = [(one.queue, one.queue_offset) for one in (*first.messages, *second.messages)]
        assert places == [(QUEUE, 0), (QUEUE, 1), (QUEUE, 10_000)], "as stored they would be of queue 0"

    scenario(body)


def test_a_consumer_goes_on_at_the_next_broker() -> None:
    async def body(brokers: Brokers) -> None:
        seen: list[MessageExt] = []
        made = PushConsumer("g", instance=brokers.instance, consume_from=ConsumeFromWhere.FIRST_OFFSET, **SOON)
        made.subscribe(TOPIC, listener=seen.append)
        async with made:
            held = brokers.asked
            await brokers.until(lambda: held(Code.PULL_MESSAGE, topic=TOPIC, queueId="3", queueOffset="2"))
            brokers.leader = "b"
            for address in list(brokers.network.transports):
                if address == "a:1":  # the broker answers what is on hold
                    brokers.network.transports[address].close()
            pulls = await brokers.until(
                lambda: [one for one in held(Code.PULL_MESSAGE, topic=TOPIC, queueId="3") if one[0] == "b:1"]
            )
            assert pulls[0][1].ext["queueOffset"] == "2"
            await brokers.until(lambda: len(seen) == 2)  # a thread calls the listener
        pulled = brokers.asked(Code.PULL_MESSAGE, topic=TOPIC)
        assert not any(int(request.ext["sysFlag"]) & PULL_COMMIT_OFFSET for _, request in pulled), (
            "a Java broker would store a logical offset as a physical one"
        )
        assert [(one.queue, one.queue_offset) for one in seen] == [(QUEUE, 0), (QUEUE, 1)]

    scenario(body)


def test_an_orderly_consumer_takes_the_lock_at_the_next_broker_before_it_pulls_there() -> None:
    async def body(brokers: Brokers) -> None:
        made = PushConsumer(
            "g", instance=brokers.instance, consume_from=ConsumeFromWhere.FIRST_OFFSET, **SOON, orderly=True
        )
        made.subscribe(TOPIC, listener=lambda _: None)
        async with made:
            await brokers.until(lambda: brokers.asked(Code.PULL_MESSAGE, topic=TOPIC, queueId="3", queueOffset="2"))
            brokers.leader = "b"
            brokers.network.requests.clear()
            brokers.network.transports["a:1"].close()
            await brokers.until(lambda: [one for one in brokers.asked(Code.PULL_MESSAGE) if one[0] == "b:1"])
            there = [request.code for where, request in brokers.network.requests if where == "b:1"]
            assert there.index(Code.LOCK_BATCH_MQ) < there.index(Code.PULL_MESSAGE)

    scenario(body)


def test_a_failed_message_goes_to_the_retry_topic_as_a_copy() -> None:
    async def body(brokers: Brokers) -> None:
        def fail(message: MessageExt) -> None:
            raise ValueError(message.queue_offset)

        made = PushConsumer("g", instance=brokers.instance, consume_from=ConsumeFromWhere.FIRST_OFFSET, **SOON)
        made.subscribe(TOPIC, listener=fail)
        async with made:
            await brokers.until(lambda: len(brokers.network.sent()) == 2)
        assert {request.ext["b"] for _, request in brokers.network.sent()} == {RETRY}
        assert not brokers.asked(Code.CONSUMER_SEND_MSG_BACK), "which broker stores it is not known"

    scenario(body)


def test_the_error_says_that_another_broker_leads_the_queue() -> None:
    assert NotLeader.codes == (ResponseCode.NOT_LEADER_FOR_QUEUE,)
    assert NotLeader.refresh_route
