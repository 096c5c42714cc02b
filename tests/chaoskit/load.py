"""Load of a chaos run: producers record acknowledgements, and committed offsets of the groups are polled.

Knows the clients. Refuses to know what happens to the servers meanwhile, and what of it is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import NetworkError, RocketMQError
from rocketmq_py.model import Message, MessageQueue, SendStatus
from rocketmq_py.protocol.bodies.admin import ConsumeStatsTable
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.group import GetConsumeStats
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command
from tests.chaoskit.audit import Acknowledged, Audit, Committed, MessageId
from tests.chaoskit.member import FREQUENT

PLAIN, ORDERED = "chaos-plain", "chaos-ordered"
READERS = {PLAIN: "plain-readers", ORDERED: "ordered-readers"}
"""The consumer group of each topic."""
QUEUES = 4
_LOOK_SECONDS = 0.2
_AGAIN_SECONDS = 0.05
_BROKERS_SECONDS = 60.0


class Load:
    """Producers that send all the time while not paused, in the event loop this is started in.

    Plain messages go wherever there is a broker, and one whose send failed is given up. Ordered ones go to the queue of
    their lane; each is sent until it is acknowledged, and the next one only then.

    :param rate: messages a second, all lanes together; half of them are ordered.
    """

    def __init__(self, audit: Audit, *, rate: float = 200.0, lanes: int = 8) -> None:
        self._audit = audit
        self._lanes = lanes
        self.ordered_lanes = [f"o{number}" for number in range(lanes)]
        self._interval = 2 * lanes / rate
        self._flowing = asyncio.Event()
        self._sending = 0
        self._idle = asyncio.Event()
        self.sent = 0
        self.longest_send = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._end = contextlib.AsyncExitStack()

    async def start(self, namesrv: str, brokers: Sequence[str], address_map: dict[str, str]) -> None:
        """Make the topics on every broker, then begin to look at offsets; sends wait for :meth:`resume`.

        :param brokers: the addresses of all masters; they are asked for offsets there.
        :param address_map: what clients connect to instead of the addresses brokers tell.
        :raises RocketMQError: the brokers cannot be reached.
        """
        instance = ClientInstance(namesrv, address_map=address_map, route_interval=FREQUENT)
        self._end.push_async_callback(instance.stop)
        producer = await self._end.enter_async_context(Producer("chaos", instance=instance))
        queues = await self._make_topics(namesrv, len(brokers), address_map)
        for number in range(self._lanes):
            self._begin(self._plain(producer, f"p{number}"))
            self._begin(self._ordered(producer, self.ordered_lanes[number], queues[number % len(queues)]))
        outward = RpcClient()
        self._end.callback(outward.close)
        for address in brokers:
            self._begin(self._look(outward, address))

    async def _make_topics(self, namesrv: str, brokers: int, address_map: dict[str, str]) -> list[MessageQueue]:
        """The queues of ordered messages, once every broker is known and has them."""
        async with Admin(namesrv, address_map=address_map) as admin, asyncio.timeout(_BROKERS_SECONDS):
            while len((await admin.cluster()).broker_addr_table) < brokers:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(_AGAIN_SECONDS)
            for topic in READERS:
                await admin.create_topic(topic, QUEUES)
            for topic in READERS:
                while len(await _queues(admin, topic)) < QUEUES * brokers:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(_AGAIN_SECONDS)
            return sorted(await _queues(admin, ORDERED))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def resume(self) -> None:
        """Send."""
        self._flowing.set()

    async def pause(self) -> None:
        """Send nothing more; returns when nothing is under way."""
        self._flowing.clear()
        while self._sending:
            self._idle.clear()
            await self._idle.wait()

    async def stop(self) -> None:
        """End everything.

        :raises Exception: what ended one of the producers: a bug of the client, since what may happen is expected.
        """
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end.aclose()
        for fault in ended:
            if isinstance(fault, Exception):
                raise fault

    # -- lanes

    async def _plain(self, producer: Producer, lane: str) -> None:
        number = 0
        while True:
            number += 1
            await self._turn()
            await self._send(producer, Message(PLAIN, str(MessageId(lane, number))), MessageId(lane, number), None)

    async def _ordered(self, producer: Producer, lane: str, queue: MessageQueue) -> None:
        number = 1
        began: float | None = None
        while True:
            await self._turn()
            message = Message(ORDERED, str(MessageId(lane, number)), sharding_key=lane)
            began = began or time.monotonic()
            if await self._send(producer, message, MessageId(lane, number), queue, began):
                number, began = number + 1, None

    async def _turn(self) -> None:
        """The rate, and the pause."""
        await asyncio.sleep(self._interval)
        await self._flowing.wait()

    async def _send(
        self,
        producer: Producer,
        message: Message,
        message_id: MessageId,
        queue: MessageQueue | None,
        began: float | None = None,
    ) -> bool:
        """Whether it was acknowledged."""
        began = began or time.monotonic()
        self._sending += 1
        self.sent += 1
        try:
            result = await producer.send(message, queue)
        except RocketMQError:
            return False  # its application was told; that is all that is promised
        finally:
            self._sending -= 1
            self._idle.set()
        if result.status is not SendStatus.SEND_OK:
            return False  # not where it is safe: not on disk, or not at a slave
        now = time.monotonic()
        self.longest_send = max(self.longest_send, now - began)
        self._audit.acknowledge(Acknowledged(now, message_id, result.queue, result.queue_offset))
        return True

    # -- offsets

    async def _look(self, outward: RpcClient, address: str) -> None:
        """Notes again and again what a broker says the groups have committed."""
        while True:
            for topic, group in READERS.items():
                with contextlib.suppress(NetworkError):  # it is down, then nothing is said
                    answer = await outward.invoke(address, _stats_command(group, topic), timeout=1.0)
                    self._note(topic, answer)
            await asyncio.sleep(_LOOK_SECONDS)

    def _note(self, topic: str, answer: Reply) -> None:
        now = time.monotonic()
        if answer.code != ResponseCode.SUCCESS:
            return  # nothing committed yet, or on its way up or down
        for queue, state in ConsumeStatsTable.read(answer.body).queues().items():
            if queue.topic == topic:
                self._audit.commit(Committed(now, queue, state.consumer_offset))


def _stats_command(group: str, topic: str) -> Command:
    return Command(RequestCode.GET_CONSUME_STATS, ext=GetConsumeStats(consumer_group=group, topic=topic).to_ext())


async def _queues(admin: Admin, topic: str) -> Sequence[MessageQueue]:
    try:
        return await admin.queues(topic)
    except RocketMQError:  # not registered yet
        return ()
