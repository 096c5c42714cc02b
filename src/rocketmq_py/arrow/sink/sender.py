"""Send the messages of one task at least once: in batches, several in flight, with retries.

Batches are not those of ``core.producer.accumulator``: rows come as blocks of encoded messages, which a batch takes by
slices, without an object per row, and nobody waits for a single row, so nothing lingers. Two rules are the same: the
maximum number of messages, and that one batch of a bound queue is under way at a time.

Blocking. A message is sent until a broker has confirmed that it is stored, so it may be stored twice. Messages that a
sharding key or queue id binds to a queue keep their order in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rocketmq_py.arrow.bad_records import BadRecordPolicy, dead_letter
from rocketmq_py.arrow.options.compression import plain
from rocketmq_py.arrow.remoting.cluster import AUTO_CREATE_QUEUES
from rocketmq_py.arrow.remoting.retry import new_retry
from rocketmq_py.arrow.sink.blocks import Block
from rocketmq_py.arrow.sink.rows import RowMessage
from rocketmq_py.arrow.sink.targets import InflightLimit, SendSettings, Targets, refusal
from rocketmq_py.core.backoff import Retry
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.accumulator import MAX_MESSAGES
from rocketmq_py.errors import MessageRefused, NetworkError, NoRouteError, RocketMQError, SystemBusy
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import STORED, RequestCode
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.wire.batch import decode_batch, encode_batch


@dataclass(slots=True)
class Batch:
    """Messages of one topic that one request sends to queue ``bound``, or to any queue if ``bound`` is None."""

    topic: str
    bound: MessageQueue | None
    retry: Retry
    parts: list[bytes | memoryview] = field(default_factory=list)
    """The encoded messages; each part has one or several."""
    count: int = 0
    size: int = 0
    waits: bool = False
    """True if it is a single message with a delay."""
    sys_flag: int = 0
    """Says how all bodies are compressed; 0 if they are not."""
    queue: MessageQueue | None = None
    """The queue of the last attempt."""
    address: str | None = None
    """The address of the broker of the last attempt."""

    def add(self, encoded: bytes | memoryview, count: int) -> None:
        """Add ``count`` encoded messages."""
        self.parts.append(encoded)
        self.count += count
        self.size += len(encoded)

    def body(self) -> bytes:
        """Return the body of the send request."""
        return b"".join(self.parts)


class BatchSender:
    """Sends the messages of one task. Call :meth:`flush` at the end, and :meth:`close` in any case.

    :param bad: how to treat messages that their broker refuses as illegal; None makes that an error.
    """

    def __init__(self, settings: SendSettings, bad: BadRecordPolicy | None = None) -> None:
        self._settings = settings
        self._bad = bad
        self._targets = Targets(settings)
        self._connections = self._targets.connections
        self._limit = InflightLimit(settings.in_flight)
        self._filling: dict[tuple[str, MessageQueue | None], Batch] = {}
        self._inflight: dict[tuple[str, int], Batch] = {}

    def send(self, message: RowMessage) -> None:
        """Add a message to its batch, which is sent when it is full or at :meth:`flush`.

        :raises RocketMQError: an earlier message could not be sent after all retries.
        """
        bound = self.bound(message.topic, message.sharding_key, message.queue_id)
        encoded = encode_batch([(message.flag, message.body, message.properties)])
        if message.waits:
            self._send_alone(message.topic, bound, encoded, message.sys_flag)
        else:
            self._add(message.topic, bound, encoded, 1, message.sys_flag)

    def send_block(self, block: Block) -> None:
        """Add the messages of a block to their batches; otherwise as :meth:`send`."""
        ends, begin = block.ends, 0
        while begin < block.rows:
            batch = self._filling.get((block.topic, block.bound))
            has_room = batch is not None and batch.sys_flag == block.sys_flag
            used, count = (batch.size, batch.count) if batch is not None and has_room else (0, 0)
            end = block.fitting(begin, MAX_MESSAGES - count, self._settings.max_batch_bytes - used)
            self._add(block.topic, block.bound, block.data[ends[begin] : ends[end]], end - begin, block.sys_flag)
            begin = end

    def bound(self, topic: str, sharding_key: str | None, queue_id: int | None) -> MessageQueue | None:
        """Return the queue that a message must go to; None if it has neither sharding key nor queue id.

        :raises ConfigError: the topic has no queue with this id.
        :raises RocketMQError: the topic cannot be looked up.
        """
        return self._targets.bound(topic, sharding_key, queue_id)

    def _add(
        self, topic: str, bound: MessageQueue | None, encoded: bytes | memoryview, count: int, sys_flag: int
    ) -> None:
        """Add messages to the batch of their queue; a batch without room for them is sent first."""
        key = (topic, bound)
        batch = self._filling.get(key)
        if batch is not None and (
            batch.size + len(encoded) > self._settings.max_batch_bytes or batch.sys_flag != sys_flag
        ):
            self._dispatch(self._filling.pop(key))
            batch = None
        if batch is None:
            batch = self._filling[key] = self._new(topic, bound, sys_flag)
        batch.add(encoded, count)
        if batch.count >= MAX_MESSAGES:
            self._dispatch(self._filling.pop(key))

    def _send_alone(self, topic: str, bound: MessageQueue | None, encoded: bytes, sys_flag: int) -> None:
        """Send a delayed message by itself, as brokers require. Earlier messages of its queue are sent before it."""
        before = self._filling.pop((topic, bound), None) if bound is not None else None
        if before is not None:
            self._dispatch(before)
        batch = self._new(topic, bound, sys_flag)
        batch.waits = True
        batch.add(encoded, 1)
        self._dispatch(batch)

    def _new(self, topic: str, bound: MessageQueue | None, sys_flag: int) -> Batch:
        retry = new_retry(self._settings.retries, f"sending to {bound or topic}")
        return Batch(topic, bound, retry, sys_flag=sys_flag)

    def flush(self) -> None:
        """Send all batches, and block until every message is stored.

        :raises RocketMQError: a message could not be sent after all retries.
        """
        while self._filling or self._inflight:
            for key in list(self._filling):
                self._dispatch(self._filling.pop(key))
            while self._inflight:
                self._await_answer()

    def close(self) -> None:
        """Close all connections; messages that are not flushed may be lost."""
        self._targets.close()

    def _dispatch(self, batch: Batch) -> None:
        """Wait until fewer batches than the limit, and none of the same bound queue, are in flight; then send."""
        while len(self._inflight) >= int(self._limit) or self._must_wait(batch):
            self._await_answer()
        self._send_batches(batch)

    def _must_wait(self, batch: Batch) -> bool:
        return batch.bound is not None and any(other.bound == batch.bound for other in self._inflight.values())

    def _send_batches(self, *batches: Batch) -> None:
        """Send batches in this order; if a broker cannot be reached, retry on another one unless the batch is bound."""
        waiting = list(batches)
        while waiting:
            error = self._try(waiting[0])
            if error is None:
                waiting.pop(0)
            else:
                failed = [*self._drop_connection(waiting[0].address), waiting[0]]
                self._pause(failed, error)
                waiting[:1] = failed

    def _try(self, batch: Batch) -> RocketMQError | None:
        """Send a batch; return the error if that fails, None if it was sent."""
        batch.address = None
        try:
            queues = self._targets.queues(batch.topic)
            batch.queue = batch.bound or queues.next(batch.queue)
            batch.address = queues.address(batch.queue)
            (opaque,) = self._connections.to(batch.address).send([self._request(batch, batch.queue)])
        except (NetworkError, NoRouteError) as e:
            return e
        self._inflight[batch.address, opaque] = batch
        return None

    def _drop_connection(self, address: str | None) -> list[Batch]:
        """Drop a broken connection; return the batches that were in flight on it, in the order of sending."""
        if address is None:
            return []
        self._connections.drop(address)
        return [self._inflight.pop(key) for key in list(self._inflight) if key[0] == address]

    def _pause(self, failed: list[Batch], error: RocketMQError) -> None:
        """Sleep before batches that failed together are sent again.

        :raises RocketMQError: ``error`` itself, if it is not retryable or the retries are used up.
        """
        if error.refresh_route:
            for batch in failed:
                self._targets.forget(batch.topic)
        failed[0].retry.pause(max(batch.retry.count(error) for batch in failed))

    def _request(self, batch: Batch, queue: MessageQueue) -> tuple[RequestCode, dict[str, str], bytes]:
        header = SendMessageV2(
            producer_group=self._settings.producer_group,
            topic=batch.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=AUTO_CREATE_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=batch.sys_flag,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties="",
            reconsume_times=0,
            unit_mode=False,
            batch=not batch.waits,
            bname=self._targets.queues(batch.topic).broker(queue),
        )
        if batch.waits:
            ((flag, body, properties),) = decode_batch(batch.body())
            return RequestCode.SEND_MESSAGE_V2, {**header.to_ext(), "h": str(flag), "i": properties.decode()}, body
        return RequestCode.SEND_BATCH_MESSAGE, header.to_ext(), batch.body()

    def _await_answer(self) -> None:
        """Wait for a response from the broker of the oldest batch in flight, and handle it."""
        address, _ = next(iter(self._inflight))
        try:
            answer = self._connections.to(address).receive()
        except NetworkError as e:
            self._send_again(self._drop_connection(address), e)
            return
        batch = self._inflight.pop((address, answer.opaque))
        if answer.code in STORED:
            self._limit.taken()
        else:
            error = self._error(batch, answer, address)
            if isinstance(error, SystemBusy):
                self._limit.busy()
            if isinstance(error, MessageRefused) and self._bad is not None:
                self._refused(batch, error, self._bad)
            else:
                self._send_again([batch], error)

    def _refused(self, batch: Batch, error: MessageRefused, bad: BadRecordPolicy) -> None:
        """Handle a batch that its broker refuses because a message is illegal.

        The messages of a batch are sent again one by one, to find the illegal one; if the batch has a single message,
        policy ``bad`` decides about that.

        :raises MessageRefused: the batch has a single message, and the mode is ``FAILFAST``.
        """
        messages = list(decode_batch(batch.body()))
        if len(messages) > 1:
            for message in messages:
                alone = self._new(batch.topic, batch.bound, batch.sys_flag)
                alone.add(encode_batch([message]), 1)
                self._dispatch(alone)
            return
        ((_, stored, raw),) = messages
        if batch.topic == bad.where or not bad.is_dead_letter(error):
            return
        body = plain(stored, batch.sys_flag)
        letter, properties = dead_letter(body, decode_properties(raw), batch.topic, str(error))
        self.send(RowMessage(bad.where, letter, properties, None, None))

    def _send_again(self, batches: list[Batch], error: RocketMQError) -> None:
        self._pause(batches, error)
        self._send_batches(*batches)

    def _error(self, batch: Batch, answer: Reply, address: str) -> RocketMQError:
        error = refusal(answer, address)
        error.add_note(f"while {batch.count} messages were sent to {batch.queue}")
        return error
