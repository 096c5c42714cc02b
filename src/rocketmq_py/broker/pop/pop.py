"""The pop path: from a pop request to messages that are invisible to the rest of their group, or to a wait for some.

Knows the order in which Java looks into the retry topic and the queues, what it writes down and what it answers
(PopMessageProcessor). Refuses to know how pops are written down, how messages come back and how waiting pops are woken.
A pop of a queue is done in one go, so no two of a group can get the same message.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.filters import compile_filter
from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.parts import PopParts
from rocketmq_py.broker.pop.reading import PopReader, as_popped, offsets_of
from rocketmq_py.broker.pop.revive_log import ReviveLog, revive_queue
from rocketmq_py.core.consumer.subscription import (
    SqlRecords,
    TagsCodeFilter,
    is_tag_type,
    parse_subscription,
    sql_filter,
    tag_filter,
)
from rocketmq_py.core.paths import MAX_BYTES, component_fault
from rocketmq_py.core.pop.long_polling import Poll, PollKey, PollTable
from rocketmq_py.core.pop.order import OrderKey, OrderTable
from rocketmq_py.errors import BadHeader, BrokerError, ConfigError
from rocketmq_py.protocol import pop_handle
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.pop import Notification, PopMessage, PopResponse
from rocketmq_py.protocol.names import RETRY_PREFIX, is_retry_topic
from rocketmq_py.protocol.pop_checkpoint import CheckPoint
from rocketmq_py.protocol.pop_handle import ExtraInfo, pop_retry_topic
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.server.requests.reply import Buffer
from rocketmq_py.store import GetResult, GetStatus

MAX_MESSAGES = 32
NOTHING = PopResponse(pop_time=0, invisible_time=0, revive_qid=0, rest_num=0)
"""What an answer tells that has looked nowhere."""

_LATE_MS = 500
_SHORT_NAMES = MAX_BYTES - len(RETRY_PREFIX) - 1
"""Characters of topic and group whose retry topic is not too long."""
_PASSED_OVER = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_FOUND_NULL, GetStatus.MESSAGE_WAS_REMOVING)


class HeldPop(NamedTuple):
    """What is needed to run a waiting request again.

    ``born`` is when the client made it. ``goes_on`` asks for a run at once: nothing was found so far, but not
    everything was looked at.
    """

    peer: Peer
    request: Request
    born: int
    goes_on: bool = False


class _Work(msgspec.Struct):
    """One pop under way: what it was asked for, and what it has so far.

    ``end`` is up to where the log must be on disk before the answer may go, ``rest`` how many messages are left;
    ``passed_over`` tells of messages that were looked at and not wanted.
    """

    peer: Peer
    header: PopMessage
    tags_filter: TagsCodeFilter | None
    record_filter: SqlRecords | None
    pop_time: int
    revive_queue: int
    count: int = 0
    rest: int = 0
    end: int = 0
    passed_over: bool = False
    pieces: list[Buffer] = msgspec.field(default_factory=list)
    starts: list[str] = msgspec.field(default_factory=list)
    offsets: list[str] = msgspec.field(default_factory=list)
    order_counts: list[str] = msgspec.field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.count >= self.header.max_msg_nums


class PopService:
    """Answers pops."""

    def __init__(
        self, parts: PopParts, checks: PopChecks, reading: PopReader, log: ReviveLog, orders: OrderTable
    ) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._stats = parts.stats
        self._clock = parts.clock
        self._checks = checks
        self._reading = reading
        self._log = log
        self._orders = orders
        self._confirming = parts.confirming
        self.pick: Callable[[int], int] = random.randrange
        """A random number below another: which queue comes first, and whether the retry topic does."""
        self.waits: PollTable[Any] = PollTable()
        """The pops that wait."""
        self.on_rest: Callable[[PollKey], None] = lambda _: None
        """Called when a pop has left messages for others that wait for the same."""

    def pop(self, peer: Peer, request: Request, born: int | None = None) -> Reply | Hold:
        """Answer a pop, or let it wait when nothing is there.

        :param born: when the client made it; its header says so unless it waited.
        """
        header: PopMessage = request.header
        now = self._clock()
        born = born or header.born_time or now
        topic = self._admit(peer, header, now - born - header.poll_time)
        if isinstance(topic, Reply):
            return topic
        tags_filter, record_filter = pop_filters(header)
        queue = pop_handle.ORDER_REVIVE_QUEUE if header.order else self._revive_queue(header.invisible_time)
        work = _Work(peer, header, tags_filter, record_filter, now, queue)
        self._collect(work, topic)
        key = PollKey(header.topic, header.consumer_group, header.queue_id)
        if work.count:
            if work.rest > 0:
                self.on_rest(key)
            return self._found(work)
        self._stats.missed()
        return self._wait(key, work, HeldPop(peer, request, born, goes_on=work.passed_over and work.rest > 0))

    def _admit(self, peer: Peer, header: PopMessage, late_ms: int) -> TopicConfig | Reply:
        ip = self._config.broker_ip1
        if late_ms > _LATE_MS:
            said = f"the broker[{ip}] pop message is timeout too much"
            return Reply(Code.POLLING_TIMEOUT, said, NOTHING)
        self._checks.may_read("pop message")
        if header.max_msg_nums > MAX_MESSAGES:
            said = f"the broker[{ip}] pop message's num is greater than {MAX_MESSAGES}"
            raise BrokerError.of(Code.INVALID_PARAMETER, said)
        topic = self._checks.reading(peer, header)
        self._check_return(header)
        return topic

    def _check_return(self, header: PopMessage) -> None:
        """Refuse to pop what could not come back: names of topic and group that together are too long for a folder."""
        if header.order or len(header.topic) + len(header.consumer_group) <= _SHORT_NAMES:
            return
        fault = component_fault(pop_retry_topic(header.topic, header.consumer_group, v2=False))
        if fault is not None and not is_retry_topic(header.topic):
            said = f"the retry topic of topic[{header.topic}] and group[{header.consumer_group}] is illegal: {fault}"
            raise BrokerError.of(Code.INVALID_PARAMETER, said)

    def _revive_queue(self, invisible_ms: int) -> int:
        return revive_queue(invisible_ms, self._config.revive_queue_num)

    # -- which queues

    def _collect(self, work: _Work, topic: TopicConfig) -> None:
        """Retry topic first, one time in five; otherwise last, when there is room. An orderly pop has none."""
        header, config = work.header, self._config
        chance = self.pick(100)
        retry_first = chance < config.pop_from_retry_probability
        retry = None if header.order else self._retry_topic(header, chance)
        if retry is not None and retry_first:
            self._all_queues(work, retry, chance)
        if header.queue_id < 0:
            self._all_queues(work, topic, chance)
        else:
            self._queue(work, topic.topic_name, header.queue_id)
        if retry is not None and not retry_first and not work.is_full:
            self._all_queues(work, retry, chance)

    def _retry_topic(self, header: PopMessage, chance: int) -> TopicConfig | None:
        """The retry topic to look into; where the new form is in use, the old one every other time."""
        config = self._config
        v2 = config.enable_retry_topic_v2
        if v2 and config.retrieve_message_from_pop_retry_topic_v1 and chance % 2 == 0:
            v2 = False
        return self._topics.get(pop_handle.pop_retry_topic(header.topic, header.consumer_group, v2=v2))

    def _all_queues(self, work: _Work, topic: TopicConfig, chance: int) -> None:
        queues = topic.read_queue_nums
        for i in range(queues):
            self._queue(work, topic.topic_name, (chance + i) % queues)

    # -- one queue

    def _queue(self, work: _Work, topic: str, queue_id: int) -> None:
        header = work.header
        group = header.consumer_group
        start = self._start(work, topic, queue_id)
        if header.order:
            key = OrderKey(topic, group, queue_id)
            if self._orders.is_blocked(key, header.attempt_id, work.pop_time, header.invisible_time):
                return
        if work.is_full or (work.record_filter is not None and work.record_filter.is_spent):
            work.rest += self._store.queue_range(topic, queue_id)[1] - start
            work.passed_over |= not work.is_full
            return
        wanted = header.max_msg_nums - work.count
        begun, found = self._reading.get(topic, queue_id, start, wanted, work.tags_filter, work.record_filter)
        if begun != start:
            self._offsets.commit(group, topic, queue_id, begun, work.peer.address)
        if found.count:
            self._take(work, topic, queue_id, begun, found)
        elif found.status in _PASSED_OVER and found.next_offset > begun:
            self._offsets.commit(group, topic, queue_id, found.next_offset, work.peer.address)
            work.passed_over = True
        work.rest += found.max_offset - found.next_offset

    def _start(self, work: _Work, topic: str, queue_id: int) -> int:
        group = work.header.consumer_group
        if self._offsets.has_reset(group, topic, queue_id):
            reset = self._offsets.take_reset(group, topic, queue_id)
            if reset is not None and self._config.use_server_side_reset_offset:
                self._orders.forget(OrderKey(topic, group, queue_id))
                self._offsets.commit(group, topic, queue_id, reset, "a reset")
                return reset
        return self._reading.start(group, topic, queue_id, work.header.init_mode)

    def _take(self, work: _Work, topic: str, queue_id: int, start: int, found: GetResult) -> None:
        """Write down what was found before it is answered, and note where it came from."""
        header = work.header
        group = header.consumer_group
        offsets = offsets_of(start, found)
        if header.order:
            self._take_in_order(work, topic, queue_id, offsets)
            self._offsets.commit(group, topic, queue_id, start, work.peer.address)
        else:
            appended = self._log.check_point(
                CheckPoint(
                    topic=topic, group=group, queue_id=queue_id, start_offset=start, pop_time=work.pop_time,
                    broker_name=self._config.broker_name, invisible_ms=header.invisible_time, count=found.count,
                    diffs=[offset - start for offset in offsets],
                ),
                work.revive_queue,
            )  # fmt: skip
            if appended is not None:
                work.end = appended.physical_offset + appended.size
            self._offsets.commit(group, topic, queue_id, found.next_offset, work.peer.address)
        work.count += found.count
        work.starts.append(pop_handle.start_offset_entry(topic, queue_id, start))
        work.offsets.append(pop_handle.msg_offset_entry(topic, queue_id, offsets))
        work.pieces.append(self._body(work, topic, queue_id, start, found.body))
        self._stats.pulled(group, topic, found.count, len(found.body))

    def _take_in_order(self, work: _Work, topic: str, queue_id: int, offsets: Sequence[int]) -> None:
        header = work.header
        key = OrderKey(topic, header.consumer_group, queue_id)
        popped = self._orders.pop(
            key, header.attempt_id, offsets, work.pop_time, header.invisible_time, self._clock()
        )  # fmt: skip
        work.order_counts += [
            *(pop_handle.offset_count_entry(topic, queue_id, offset, count) for offset, count in popped.counts.items()),
            pop_handle.queue_count_entry(topic, queue_id, popped.least),
        ]

    def _body(self, work: _Work, topic: str, queue_id: int, start: int, body: Buffer) -> Buffer:
        header, name = work.header, self._config.broker_name
        if topic == header.topic or self._config.pop_response_return_actual_retry_topic:
            return body
        flag = pop_handle.retry_flag(topic)
        handle = ExtraInfo(start, work.pop_time, header.invisible_time, work.revive_queue, flag, name, queue_id)
        return as_popped(bytes(body), header.topic, handle)

    # -- what is answered

    def _found(self, work: _Work) -> Reply | Hold:
        reply = Reply(Code.SUCCESS, "FOUND", self._answer(work), body=work.pieces)
        if self._confirming is None or not work.end:
            return reply
        reply.body = b"".join(work.pieces)  # what the log lends is for an answer that goes at once
        return self._confirming.answer_regardless(reply, work.end)

    def _wait(self, key: PollKey, work: _Work, held: HeldPop) -> Reply | Hold:
        deadline = held.born + work.header.poll_time
        code = wait_refusal(self._config, self.waits, key, deadline - self._clock(), work.header.poll_time)
        if code is None:
            return Hold(key, deadline, Poll(deadline, work.tags_filter, work.record_filter, held))
        return Reply(code, "NO_MESSAGE_IN_QUEUE", self._answer(work))

    def _answer(self, work: _Work) -> PopResponse:
        return PopResponse(
            pop_time=work.pop_time, invisible_time=work.header.invisible_time, revive_qid=work.revive_queue,
            rest_num=work.rest, start_offset_info=pop_handle.join_entries(work.starts),
            msg_offset_info=pop_handle.join_entries(work.offsets),
            order_count_info=pop_handle.join_entries(work.order_counts) if work.header.order else None,
        )  # fmt: skip


def wait_refusal(
    config: BrokerConfig, waits: PollTable[Any], key: PollKey, left_ms: int, poll_time: int
) -> Code | None:
    """Why a request that found nothing may not wait; None when it may.

    :param left_ms: how long it would wait. :param poll_time: how long it was willing to wait at first.
    """
    if poll_time <= 0:
        return Code.POLLING_TIMEOUT
    if not waits.has_room(key, config.pop_polling_size, config.max_pop_polling_size):
        return Code.POLLING_FULL
    return Code.POLLING_TIMEOUT if left_ms <= 0 else None


def pop_filters(header: PopMessage | Notification) -> tuple[TagsCodeFilter | None, SqlRecords | None]:
    """The filters of tags codes and of records a pop asks for.

    :raises BrokerError: the expression is illegal.
    """
    if not header.exp:
        return None, None
    try:
        subscription = parse_subscription(header.topic, header.exp, header.exp_type)
        if is_tag_type(subscription.expression_type):
            return tag_filter(subscription), None
        compiled = compile_filter(subscription.expression_type, subscription.sub_string)
    except (BadHeader, ConfigError) as e:
        said = f"parse the consumer's subscription failed: {e}"
        raise BrokerError.of(Code.SUBSCRIPTION_PARSE_FAILED, said) from None
    return None, sql_filter(lambda _: compiled, compiled.cost)
