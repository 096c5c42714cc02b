"""Sending many messages from one task: in batches, several under way, again where a broker was busy or gone.

Blocking. A message is sent until a broker says it is stored, so it may be stored twice, never less than once. Messages
bound to a queue (by sharding key or queue id) keep their order in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rocketmq_py.errors import (
    BrokerError,
    ConfigError,
    MessageRefused,
    NetworkError,
    NoRouteError,
    RocketMQError,
    SystemBusy,
)
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import STORED, RequestCode
from rocketmq_py.protocol.headers import SendMessageV2
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.spark.badrecords import Bad, dead_letter
from rocketmq_py.spark.cluster import AUTO_CREATE_QUEUES, Cluster
from rocketmq_py.spark.connection import Connections
from rocketmq_py.spark.queues import Queues
from rocketmq_py.spark.retry import Retry
from rocketmq_py.spark.rows import Outgoing
from rocketmq_py.spark.security import OPEN, Security
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.javahash import string_hash

_MAX_MESSAGES = 512
_PER_MESSAGE = 22  # bytes a batch adds to each


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSettings:
    """How to send. See ``WriteOptions`` for the meaning of each."""

    namesrv: tuple[str, ...]
    producer_group: str
    timeout: float
    retries: int
    in_flight: int
    max_batch_bytes: int
    security: Security = OPEN


@dataclass(slots=True)
class Batch:
    """Messages of one topic on their way to one queue; ``bound`` if it must be that one."""

    topic: str
    bound: MessageQueue | None
    retry: Retry
    messages: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    size: int = 0
    waits: bool = False
    """Whether it is one message that asks for a delay."""
    queue: MessageQueue | None = None
    """The queue of the last attempt."""
    address: str | None = None
    """Where the last attempt went."""

    def add(self, message: Outgoing) -> None:
        self.messages.append((0, message.body, message.properties))
        self.size += len(message.body) + len(message.properties) + _PER_MESSAGE


class TopicQueues:
    """The queues a topic can be written to, and which is next."""

    def __init__(self, queues: Queues) -> None:
        self._masters = {queue: addresses.master for queue, addresses in queues.addresses.items()}
        self._queues = sorted(self._masters)
        self._turn = 0

    def address(self, queue: MessageQueue) -> str:
        """Where the master of ``queue`` is.

        :raises NoRouteError: it is not registered now.
        """
        master = self._masters.get(queue)
        if master is None:
            raise NoRouteError(f"no broker takes messages for {queue}: no master of {queue.broker_name} is registered")
        return master

    def bound(self, message: Outgoing) -> MessageQueue | None:
        """The queue a message has to go to, None if any will do.

        :raises ConfigError: it names a queue the topic does not have.
        """
        if message.queue_id is not None:
            for queue in self._queues:  # with several brokers, always the first one that has such a queue
                if queue.queue_id == message.queue_id:
                    return queue
            raise ConfigError(f"topic {message.topic} has no queue {message.queue_id}")
        if message.sharding_key is not None:
            return self._queues[abs(string_hash(message.sharding_key)) % len(self._queues)]
        return None

    def next(self, avoid: MessageQueue | None) -> MessageQueue:
        """The queues in turn, without those of the broker that failed last where there is another."""
        for _ in self._queues:
            self._turn = (self._turn + 1) % len(self._queues)
            queue = self._queues[self._turn]
            if avoid is None or queue.broker_name != avoid.broker_name:
                return queue
        return self._queues[self._turn]


class Room:
    """How much may be under way: half as much when a broker is busy, a little more for everything it takes.

    :param most: what is allowed when all is well.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = float(most)

    def __int__(self) -> int:
        return int(self._now)

    def taken(self) -> None:
        """A broker took something."""
        self._now = min(self._most, self._now + 1 / self._now)

    def busy(self) -> None:
        """A broker refused something because it is busy."""
        self._now = max(1.0, self._now / 2)


class Sender:
    """Sends for one task. Call :meth:`flush` at the end, and :meth:`close` in any case.

    :param bad: what to do about messages their broker refuses as illegal; without it, that is an error.
    """

    def __init__(self, settings: SendSettings, bad: Bad | None = None) -> None:
        self._settings = settings
        self._bad = bad
        self._connections = Connections(settings.timeout, settings.security)
        self._cluster = Cluster(settings.namesrv, settings.timeout, settings.retries, settings.security)
        self._topics: dict[str, TopicQueues] = {}
        self._room = Room(settings.in_flight)
        self._filling: dict[tuple[str, MessageQueue | None], Batch] = {}
        self._under_way: dict[tuple[str, int], Batch] = {}

    def send(self, message: Outgoing) -> None:
        """Take a message; it leaves when its batch is full or at :meth:`flush`.

        :raises RocketMQError: an earlier message could not be sent, all attempts used up.
        """
        bound = self._queues(message.topic).bound(message)
        if message.waits:
            self._send_alone(message, bound)
            return
        key = (message.topic, bound)
        size = len(message.body) + len(message.properties) + _PER_MESSAGE
        batch = self._filling.get(key)
        if batch is not None and batch.size + size > self._settings.max_batch_bytes:
            self._dispatch(self._filling.pop(key))
            batch = None
        if batch is None:
            batch = self._filling[key] = self._new(message.topic, bound)
        batch.add(message)
        if len(batch.messages) >= _MAX_MESSAGES:
            self._dispatch(self._filling.pop(key))

    def _send_alone(self, message: Outgoing, bound: MessageQueue | None) -> None:
        """Send a message that waits: brokers take those one by one only. What came before it leaves before it."""
        before = self._filling.pop((message.topic, bound), None) if bound is not None else None
        if before is not None:
            self._dispatch(before)
        batch = self._new(message.topic, bound)
        batch.waits = True
        batch.add(message)
        self._dispatch(batch)

    def _new(self, topic: str, bound: MessageQueue | None) -> Batch:
        return Batch(topic, bound, Retry(self._settings.retries, f"sending to {bound or topic}"))

    def flush(self) -> None:
        """Send what is left and wait until everything is stored; errors as :meth:`send`."""
        while self._filling or self._under_way:
            for key in list(self._filling):
                self._dispatch(self._filling.pop(key))
            while self._under_way:
                self._await_answer()

    def close(self) -> None:
        """Close all connections; what is not flushed may be lost."""
        self._connections.close()
        self._cluster.close()

    def _queues(self, topic: str) -> TopicQueues:
        queues = self._topics.get(topic)
        if queues is None:
            queues = self._topics[topic] = TopicQueues(self._cluster.writable(topic))
        return queues

    def _dispatch(self, batch: Batch) -> None:
        """Send a batch as soon as there is room, and after the one before it if order matters."""
        while len(self._under_way) >= int(self._room) or self._must_wait(batch):
            self._await_answer()
        self._post(batch)

    def _must_wait(self, batch: Batch) -> bool:
        return batch.bound is not None and any(other.bound == batch.bound for other in self._under_way.values())

    def _post(self, *batches: Batch) -> None:
        """Put batches on their way, at another broker if one cannot be reached."""
        waiting = list(batches)
        while waiting:
            error = self._try(waiting[0])
            if error is None:
                waiting.pop(0)
            else:
                failed = [*self._take_back(waiting[0].address), waiting[0]]
                self._pause(failed, error)
                waiting[:1] = failed

    def _try(self, batch: Batch) -> RocketMQError | None:
        """Send a batch; the error if that was not possible."""
        batch.address = None
        try:
            queues = self._queues(batch.topic)
            batch.queue = batch.bound or queues.next(batch.queue if batch.retry.failures else None)
            batch.address = queues.address(batch.queue)
            (opaque,) = self._connections.to(batch.address).send([self._request(batch, batch.queue)])
        except (NetworkError, NoRouteError) as e:
            return e
        self._under_way[batch.address, opaque] = batch
        return None

    def _take_back(self, address: str | None) -> list[Batch]:
        """Give up a broken connection; the batches under way on it, in order."""
        if address is None:
            return []
        self._connections.drop(address)
        return [self._under_way.pop(key) for key in list(self._under_way) if key[0] == address]

    def _pause(self, failed: list[Batch], error: RocketMQError) -> None:
        """Wait before batches that failed together are sent again.

        :raises RocketMQError: ``error`` itself, when it is not retryable or the attempts are used up.
        """
        if error.refresh_route:
            for batch in failed:
                self._topics.pop(batch.topic, None)
        failed[0].retry.pause(max(batch.retry.count(error) for batch in failed))

    def _request(self, batch: Batch, queue: MessageQueue) -> tuple[RequestCode, dict[str, str], bytes]:
        header = SendMessageV2(
            producer_group=self._settings.producer_group,
            topic=batch.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=AUTO_CREATE_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties="",
            reconsume_times=0,
            unit_mode=False,
            batch=not batch.waits,
            bname=queue.broker_name,
        )
        if batch.waits:
            ((_, body, properties),) = batch.messages
            return RequestCode.SEND_MESSAGE_V2, {**header.to_ext(), "i": properties.decode()}, body
        return RequestCode.SEND_BATCH_MESSAGE, header.to_ext(), encode_batch(batch.messages)

    def _await_answer(self) -> None:
        """Wait for an answer from the broker that has the oldest batch."""
        address, _ = next(iter(self._under_way))
        try:
            answer = self._connections.to(address).receive()
        except NetworkError as e:
            self._again(self._take_back(address), e)
            return
        batch = self._under_way.pop((address, answer.opaque))
        if answer.code in STORED:
            self._room.taken()
        else:
            error = self._error(batch, answer, address)
            if isinstance(error, SystemBusy):
                self._room.busy()
            if isinstance(error, MessageRefused) and self._bad is not None:
                self._refused(batch, error, self._bad)
            else:
                self._again([batch], error)

    def _refused(self, batch: Batch, error: MessageRefused, bad: Bad) -> None:
        """One of the messages is illegal, for the broker: find out which by sending them one by one."""
        if len(batch.messages) > 1:
            for message in batch.messages:
                alone = self._new(batch.topic, batch.bound)
                alone.messages.append(message)
                self._dispatch(alone)
            return
        ((_, body, raw),) = batch.messages
        if batch.topic == bad.where or not bad.is_kept(error):
            return
        letter, properties = dead_letter(body, decode_properties(raw), batch.topic, str(error))
        self.send(Outgoing(bad.where, letter, properties, None, None))

    def _again(self, batches: list[Batch], error: RocketMQError) -> None:
        self._pause(batches, error)
        self._post(*batches)

    def _error(self, batch: Batch, answer: Command, address: str) -> RocketMQError:
        error = BrokerError.of(answer.code, answer.remark, address)
        error.add_note(f"while {len(batch.messages)} messages were sent to {batch.queue}")
        return error
