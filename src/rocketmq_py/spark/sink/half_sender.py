"""Send the half messages of an exactly-once task, in batches or one by one, and record the offsets of each.

Apache RocketMQ's brokers do not support batches of half messages: after refusing the first one, they get them one by
one.

Blocking. A half message whose response is lost is sent again with another unique key: the first one may be stored, too,
and must not be committed.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_py.arrow.bad_records import BadRecordPolicy, dead_letter
from rocketmq_py.arrow.options.compression import plain
from rocketmq_py.arrow.remoting.cluster import AUTO_CREATE_QUEUES
from rocketmq_py.arrow.remoting.retry import new_retry
from rocketmq_py.arrow.row_properties import ROW_KEY
from rocketmq_py.arrow.sink.rows import RowMessage
from rocketmq_py.arrow.sink.targets import InflightLimit, SendSettings, Targets, TopicQueues, refusal
from rocketmq_py.core.backoff import Retry
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import (
    BrokerError,
    CorruptRecord,
    MessageRefused,
    NetworkError,
    NoRouteError,
    RequestTimeout,
    RocketMQError,
    SystemBusy,
)
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import Property, decode_properties, encode_properties
from rocketmq_py.protocol.codes import STORED_UNSAFE, RequestCode, ResponseCode
from rocketmq_py.protocol.half_messages import decode_offsets
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC
from rocketmq_py.protocol.sys_flag import TRANSACTION_PREPARED
from rocketmq_py.wire.batch import decode_batch, encode_batch

if TYPE_CHECKING:
    from rocketmq_py.arrow.sink.blocks import Block

AT_ONCE = 512
"""Maximum number of half messages in one batch."""
_SINGLES_PER_BATCH = 64
"""Number of single half messages that may be in flight in place of one batch."""
_OVERHEAD = 128
"""Estimate of the bytes that the batch format and the transaction add to each message."""


class SentHalf(NamedTuple):
    """The location of a stored half message, which the request to end it contains.

    :ivar broker: name of the broker.
    :ivar commit_log_offset: position in the broker's commit log, in bytes.
    :ivar table_offset: offset in the queue of the half topic.
    :ivar order: the queue in which messages must be delivered in the order of sending; None if any order will do.
    """

    broker: str
    commit_log_offset: int
    table_offset: int
    order: MessageQueue | None


@dataclass(slots=True)
class HalfRange:
    """Offsets of half messages in the commit log (bytes) and in the queue of the half topic.

    :ivar is_whole: the half messages were stored as one batch, which the broker ends faster in one request.
    """

    log_offsets: Sequence[int]
    half_offsets: Sequence[int]
    is_whole: bool = True


_Where = HalfRange | tuple[int, int]
"""Offsets of several half messages, or the commit-log offset and half-topic offset of one."""


@dataclass(slots=True)
class HalfMessages:
    """Offsets of half messages, in compact form: Spark sends them to the driver through the JVM.

    :ivar ranges: by broker name, and by the queue in which messages must keep this order (None: any order).
    """

    ranges: dict[tuple[str, MessageQueue | None], list[HalfRange]] = field(default_factory=dict)

    def add(self, broker: str, order: MessageQueue | None, commit_log_offset: int, table_offset: int) -> None:
        """Add the offsets of one half message."""
        ranges = self.ranges.setdefault((broker, order), [])
        if not ranges or ranges[-1].is_whole or len(ranges[-1].log_offsets) >= AT_ONCE:
            ranges.append(HalfRange(array("q"), array("q"), is_whole=False))
        log_offsets, offsets = ranges[-1].log_offsets, ranges[-1].half_offsets
        assert isinstance(log_offsets, array)
        assert isinstance(offsets, array)
        log_offsets.append(commit_log_offset)
        offsets.append(table_offset)

    def add_range(self, broker: str, order: MessageQueue | None, half_range: HalfRange) -> None:
        """Add the offsets of several half messages."""
        self.ranges.setdefault((broker, order), []).append(half_range)

    def add_all(self, others: HalfMessages) -> None:
        """Add the offsets of all half messages in ``others``."""
        for where, ranges in others.ranges.items():
            self.ranges.setdefault(where, []).extend(ranges)

    def __iter__(self) -> Iterator[SentHalf]:
        """Iterate over the half messages; those of one queue in the order of sending."""
        for (broker, order), ranges in self.ranges.items():
            for half_range in ranges:
                for log_offset, half_offset in zip(half_range.log_offsets, half_range.half_offsets, strict=True):
                    yield SentHalf(broker, log_offset, half_offset, order)

    def __len__(self) -> int:
        return sum(len(half_range.log_offsets) for ranges in self.ranges.values() for half_range in ranges)


@dataclass(slots=True)
class _Pending:
    """A half message that waits to be sent, or for the response of its broker.

    :ivar number: position in the order of sending.
    :ivar bound: the queue that it must go to; None if any will do.
    :ivar queue: the queue of the last attempt.
    """

    number: int
    message: RowMessage
    bound: MessageQueue | None
    retry: Retry
    queue: MessageQueue | None = None
    alone: bool = False
    """True if it must not be sent in a batch."""


@dataclass(slots=True)
class _Part:
    """Consecutive messages of a block that one request sends; split into single messages if the broker refuses it.

    :ivar number: position of the first message in the order of sending.
    :ivar bound: the queue that they must go to; None if any will do.
    :ivar sys_flag: says how all bodies are compressed; 0 if they are not.
    :ivar queue: the queue of the last attempt.
    """

    number: int
    count: int
    topic: str
    bound: MessageQueue | None
    data: bytes
    sys_flag: int
    queue: MessageQueue | None = None


class HalfSender:
    """Sends the half messages of one task. Call :meth:`flush` at the end, and :meth:`close` in any case.

    :param settings: members of their ``producer_group`` answer the brokers' transaction checks.
    :param unique_key: returns a new unique key.
    :param bad: how to treat messages that their broker refuses as illegal.
    :ivar prefix: encoded properties that make a message a half message.
    :ivar resent: for rows whose half message was sent more than once, the last unique key, by row key (property
        ``SPARK_ROW_KEY``).
    """

    def __init__(self, settings: SendSettings, unique_key: Callable[[], str], bad: BadRecordPolicy) -> None:
        self._settings = settings
        self._bad = bad
        self._unique_key = unique_key
        self._targets = Targets(settings)
        self._connections = self._targets.connections
        self._waiting: deque[_Pending] = deque()
        self._inflight: dict[tuple[str, int], list[_Pending] | _Part] = {}
        self._names: dict[str, str] = {}  # names of brokers by address
        self._one_by_one: set[str] = set()  # addresses of brokers that do not support batches
        transaction = {Property.TRANSACTION_PREPARED: "true", Property.PRODUCER_GROUP: settings.producer_group}
        self.prefix = encode_properties(transaction)
        self._limit = InflightLimit(settings.in_flight)
        self._not_before = 0.0
        self._sent = 0
        self._halves = HalfMessages()
        self._ordered: list[tuple[int, str, MessageQueue, _Where]] = []
        self.resent: dict[str, str] = {}

    def send(self, message: RowMessage) -> None:
        """Queue a half message, and send a batch when enough are queued; blocks while too many are in flight.

        :raises RocketMQError: as :meth:`flush`.
        """
        bound = self.bound(message.topic, message.sharding_key, message.queue_id)
        self._waiting.append(_Pending(self._sent, message, bound, self._retry(message.topic)))
        self._sent += 1
        if len(self._waiting) >= AT_ONCE:
            self._send_waiting()
            self._make_room()

    def send_block(self, block: Block) -> None:
        """Send the messages of a block, in batches; blocks while too many are in flight.

        :raises RocketMQError: as :meth:`flush`.
        """
        ends, begin = block.ends, 0
        while begin < block.rows:
            end = block.fitting(begin, AT_ONCE, self._settings.max_batch_bytes)
            data = bytes(block.data[ends[begin] : ends[end]])
            self._send_part(_Part(self._sent, end - begin, block.topic, block.bound, data, block.sys_flag))
            self._sent += end - begin
            if len(self._waiting) >= AT_ONCE:
                self._send_waiting()
            self._make_room()
            begin = end

    def bound(self, topic: str, sharding_key: str | None, queue_id: int | None) -> MessageQueue | None:
        """Return the queue that a message must go to; None if it has neither sharding key nor queue id.

        :raises RocketMQError: as :meth:`Targets.bound`.
        """
        return self._targets.bound(topic, sharding_key, queue_id)

    def flush(self) -> None:
        """Send all queued half messages, and block until every one is stored.

        :raises RocketMQError: a half message could not be stored after all retries.
        """
        while self._waiting or self._inflight:
            self._send_waiting()
            self._take_answers(0)

    def halves(self) -> HalfMessages:
        """Return the offsets of the stored half messages; within an ordered queue in the order of sending."""
        for _, broker, order, where in sorted(self._ordered, key=itemgetter(0)):
            self._keep(broker, order, where)
        self._ordered.clear()
        return self._halves

    @property
    def topics(self) -> set[str]:
        """The topics to which messages were sent."""
        return self._targets.used

    def close(self) -> None:
        """Close all connections."""
        self._targets.close()

    def _retry(self, topic: str) -> Retry:
        return new_retry(self._settings.retries, f"sending to {topic}")

    # -- out

    def _make_room(self) -> None:
        """Wait for responses until no more requests than the limit are in flight."""
        self._take_answers(int(self._limit) * (_SINGLES_PER_BATCH if self._one_by_one else 1))

    def _send_part(self, part: _Part) -> None:
        """Send a part of a block in one request, or queue its messages if the broker does not support batches."""
        time.sleep(max(0.0, self._not_before - time.monotonic()))
        try:
            queues = self._targets.queues(part.topic)
            part.queue = part.bound or queues.next(None)
            address = self._address(queues, part.queue)
        except NoRouteError as e:
            self._send_again(self._taken_apart(part), e)
            return
        if address in self._one_by_one:
            self._waiting += self._taken_apart(part)
            return
        try:
            (opaque,) = self._connections.to(address).send(
                [self._batch(part.topic, part.queue, part.data, part.sys_flag)]
            )
        except NetworkError as e:
            self._connection_lost(address, self._taken_apart(part), e)
        else:
            self._inflight[address, opaque] = part

    def _taken_apart(self, part: _Part) -> list[_Pending]:
        """Split a part of a block into messages."""
        found = []
        for number, (flag, body, raw) in enumerate(decode_batch(part.data), part.number):
            own = raw.removeprefix(self.prefix)
            properties_of = decode_properties(own)
            message = RowMessage(
                part.topic, body, own, None, None, properties_of[ROW_KEY], properties_of[Property.UNIQUE_KEY],
                flag=flag, sys_flag=part.sys_flag,
            )  # fmt: skip
            found.append(_Pending(number, message, part.bound, self._retry(part.topic), part.queue))
        return found

    def _send_waiting(self) -> None:
        """Send all queued messages, those of one broker with one write to its socket."""
        while self._waiting:
            time.sleep(max(0.0, self._not_before - time.monotonic()))
            waiting, self._waiting = self._waiting, deque()
            by_address: dict[str, list[_Pending]] = {}
            free: dict[str, MessageQueue] = {}
            for pending in waiting:
                try:
                    address = self._route(pending, free)
                except NoRouteError as e:
                    self._send_again([pending], e)
                else:
                    by_address.setdefault(address, []).append(pending)
            for address, pendings in by_address.items():
                self._write(address, pendings)

    def _route(self, pending: _Pending, free: dict[str, MessageQueue]) -> str:
        """Choose the queue of a message; return its broker's address.

        :param free: by topic, the queue for messages that may go to any; filled here.
        """
        topic, queues = pending.message.topic, self._targets.queues(pending.message.topic)
        if pending.bound is not None:
            pending.queue = pending.bound
        elif pending.retry.failures:
            pending.queue = queues.next(pending.queue)
        else:
            if topic not in free:
                free[topic] = queues.next(None)
            pending.queue = free[topic]
        return self._address(queues, pending.queue)

    def _address(self, queues: TopicQueues, queue: MessageQueue) -> str:
        """Return the address of a queue's broker; store the broker's name, which is needed for the responses."""
        address = queues.address(queue)
        self._names[address] = queues.broker(queue)
        return address

    def _write(self, address: str, pendings: list[_Pending]) -> None:
        in_batches = address not in self._one_by_one
        groups = self._groups(pendings) if in_batches else [[pending] for pending in pendings]
        try:
            opaques = self._connections.to(address).send([self._request(group, in_batches) for group in groups])
        except NetworkError as e:
            self._connection_lost(address, pendings, e)
            return
        for opaque, group in zip(opaques, groups, strict=True):
            self._inflight[address, opaque] = group

    def _groups(self, pendings: list[_Pending]) -> list[list[_Pending]]:
        """Group messages by queue into batches of at most ``max_batch_bytes``."""
        groups: list[list[_Pending]] = []
        filling: dict[MessageQueue | None, tuple[list[_Pending], int]] = {}
        for pending in pendings:
            size = len(pending.message.body) + len(pending.message.properties) + _OVERHEAD
            group, room = filling.get(pending.queue, ([], 0))
            if pending.alone or size > room or group[-1].message.sys_flag != pending.message.sys_flag:
                group, room = [], 0 if pending.alone else self._settings.max_batch_bytes
                groups.append(group)
            group.append(pending)
            filling[pending.queue] = group, room - size
        return groups

    def _request(self, group: list[_Pending], is_batch: bool) -> tuple[RequestCode, dict[str, str], bytes]:
        message, queue = group[0].message, group[0].queue
        assert queue is not None
        if is_batch:
            messages = [(one.message.flag, one.message.body, self.prefix + one.message.properties) for one in group]
            return self._batch(message.topic, queue, encode_batch(messages), message.sys_flag)
        properties = self.prefix + message.properties
        header = self._header(message.topic, queue, message.sys_flag, is_batch=False)
        fields = {**header, "h": str(message.flag), "i": properties.decode()}
        return RequestCode.SEND_MESSAGE_V2, fields, message.body

    def _batch(
        self, topic: str, queue: MessageQueue, body: bytes, sys_flag: int
    ) -> tuple[RequestCode, dict[str, str], bytes]:
        return RequestCode.SEND_HALF_MESSAGES, self._header(topic, queue, sys_flag, is_batch=True), body

    def _header(self, topic: str, queue: MessageQueue, sys_flag: int, *, is_batch: bool) -> dict[str, str]:
        return SendMessageV2(
            producer_group=self._settings.producer_group, topic=topic, default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=AUTO_CREATE_QUEUES, queue_id=queue.queue_id,
            sys_flag=TRANSACTION_PREPARED | sys_flag, born_timestamp=int(time.time() * 1000), flag=0, properties="",
            reconsume_times=0, unit_mode=False, batch=is_batch, bname=self._targets.queues(topic).broker(queue),
        ).to_ext()  # fmt: skip

    # -- answers

    def _take_answers(self, most: int) -> None:
        """Handle responses until at most ``most`` requests are in flight."""
        while len(self._inflight) > most:
            address = next(iter(self._inflight))[0]
            try:
                answer = self._connections.to(address).receive()
            except NetworkError as e:
                self._connection_lost(address, [], e)
                return
            sent = self._inflight.pop((address, answer.opaque))
            if answer.code == ResponseCode.SUCCESS:
                self._limit.taken()
                self._stored(sent, answer, self._names[address])
            else:
                self._not_stored(address, self._pendings(sent), answer)

    def _pendings(self, sent: list[_Pending] | _Part) -> list[_Pending]:
        return self._taken_apart(sent) if isinstance(sent, _Part) else sent

    def _not_stored(self, address: str, group: list[_Pending], answer: Reply) -> None:
        """Handle a response other than SUCCESS to the half messages ``group``."""
        queue = group[0].queue
        if answer.code in STORED_UNSAFE:  # a crash of the broker may lose them after the decision to commit
            for pending in group:
                self._renew_key(pending)
            self._send_again(group, RequestTimeout(f"half messages to {queue} are stored, but unsafe: {answer.remark}"))
        elif answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._one_by_one.add(address)
            self._waiting.extendleft(reversed(group))
        else:
            error = refusal(answer, address)
            error.add_note(f"while {len(group)} half messages were sent to {queue}")
            self._failed(group, error)

    def _failed(self, group: list[_Pending], error: BrokerError) -> None:
        if isinstance(error, SystemBusy):
            self._limit.busy()
        if not isinstance(error, MessageRefused):
            self._send_again(group, error)
        elif len(group) == 1:
            self._refused(group[0].message, error)
        else:  # one of them is illegal: sent alone, the broker's responses show which one
            for pending in group:
                pending.alone = True
            self._waiting.extendleft(reversed(group))

    def _stored(self, sent: list[_Pending] | _Part, answer: Reply, broker: str) -> None:
        """Record the offsets of stored half messages: those of a batch are consecutive in the half topic.

        :raises CorruptRecord: the response does not have one offset for each message.
        """
        log_offsets = decode_offsets(answer.body) if answer.body else (int(answer.ext["msgId"][-16:], 16),)
        first, count = int(answer.ext["queueOffset"]), sent.count if isinstance(sent, _Part) else len(sent)
        if len(log_offsets) != count:
            raise CorruptRecord(f"{broker} returned {len(log_offsets)} offsets for {count} half messages")
        offsets = range(first, first + count)
        if isinstance(sent, _Part):
            self._record(sent.number, broker, sent.bound, HalfRange(array("q", log_offsets), array("q", offsets)))
        elif count > 1 and all(pending.bound is None for pending in sent):
            self._record(sent[0].number, broker, None, HalfRange(array("q", log_offsets), array("q", offsets)))
        else:
            for pending, log_offset, half_offset in zip(sent, log_offsets, offsets, strict=True):
                self._record(pending.number, broker, pending.bound, (log_offset, half_offset))

    def _record(self, number: int, broker: str, bound: MessageQueue | None, where: HalfRange | tuple[int, int]) -> None:
        if bound is not None:
            self._ordered.append((number, broker, bound, where))
        else:
            self._keep(broker, None, where)

    def _keep(self, broker: str, order: MessageQueue | None, where: _Where) -> None:
        if isinstance(where, HalfRange):
            self._halves.add_range(broker, order, where)
        else:
            self._halves.add(broker, order, *where)

    def _refused(self, message: RowMessage, error: MessageRefused) -> None:
        """Treat a message that its broker refuses as illegal as the policy for bad records says.

        :raises MessageRefused: the mode is ``FAILFAST``.
        """
        if message.topic == self._bad.where or not self._bad.is_dead_letter(error):
            return
        body = plain(message.body, message.sys_flag)
        letter, raw = dead_letter(body, decode_properties(message.properties), message.topic, str(error))
        where, row_key, unique_key = self._bad.where, message.row_key, message.unique_key
        self.send(RowMessage(where, letter, raw, None, None, row_key, unique_key, message.waits))

    def _connection_lost(self, address: str, unsent: list[_Pending], error: NetworkError) -> None:
        """Send all half messages again that were in flight on a broken connection, with new unique keys.

        :param unsent: half messages that could not be written to the connection; sent again, too.
        """
        self._connections.drop(address)
        under_way = [self._inflight.pop(key) for key in list(self._inflight) if key[0] == address]
        lost = [*(pending for sent in under_way for pending in self._pendings(sent)), *unsent]
        for pending in lost:
            self._renew_key(pending)
        self._send_again(lost, error)

    def _renew_key(self, pending: _Pending) -> None:
        """Give a half message another unique key, so that a copy stored under the old key is not committed."""
        message, key = pending.message, self._unique_key()
        properties = message.properties.replace(_unique(message.unique_key), _unique(key), 1)
        pending.message = message._replace(properties=properties, unique_key=key)
        self.resent[message.row_key] = key

    def _send_again(self, pendings: list[_Pending], error: RocketMQError) -> None:
        """Queue half messages whose sends failed together; they are sent again after a pause.

        :raises RocketMQError: ``error`` itself, if it is not retryable or the retries are used up.
        """
        if error.refresh_route:
            for pending in pendings:
                self._targets.forget(pending.message.topic)
        pause = max(pending.retry.count(error) for pending in pendings)
        self._not_before = max(self._not_before, time.monotonic() + pause)
        self._waiting.extendleft(reversed(pendings))


def _unique(key: str) -> bytes:
    return f"{Property.UNIQUE_KEY}\x01{key}\x02".encode()
