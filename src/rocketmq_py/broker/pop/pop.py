"""Serving pops (POP_MESSAGE): a pop returns messages and makes them invisible to their group for a while.

The retry topic and the queues are read in Java's order, and the checks and answers are Java's (PopMessageProcessor). A
pop of a queue is one uninterrupted step, so no two consumers of a group get the same message.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.filters import compile_filter
from rocketmq_py.broker.metadata.message_types import has_priorities
from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.long_polling import NO_MESSAGES, HeldPop, PopLongPollingService
from rocketmq_py.broker.pop.reader import PopReader, as_popped, offsets_of
from rocketmq_py.broker.pop.revive_log import ReviveLog, revive_queue
from rocketmq_py.broker.pull.cold_read import ColdRead
from rocketmq_py.broker.pull.pull import COLD
from rocketmq_py.broker.send.ack_waiter import AckWaiter
from rocketmq_py.broker.stats import Stats
from rocketmq_py.core.consumer.subscription import (
    SqlRecords,
    TagsCodeFilter,
    is_tag_type,
    parse_subscription,
    sql_filter,
    tag_filter,
)
from rocketmq_py.core.paths import MAX_BYTES, component_fault
from rocketmq_py.core.pop.long_polling import Poll, PollKey
from rocketmq_py.core.pop.order import OrderKey, OrderTable
from rocketmq_py.errors import BadHeader, BrokerError, ConfigError
from rocketmq_py.protocol import pop_handle
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.pop import Notification, PopMessage, PopResponse
from rocketmq_py.protocol.names import RETRY_PREFIX, is_retry_topic
from rocketmq_py.protocol.pop_checkpoint import CheckPoint
from rocketmq_py.protocol.pop_handle import ExtraInfo
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.server.reply import Buffer
from rocketmq_py.store import GetResult, GetStatus
from rocketmq_py.store.fs.residency import NotInMemory, Residency

MAX_MESSAGES = 32

_LATE_MS = 500
_LATE_AFTER_LOAD_MS = 10_000
"""How long after its polling time a pop is answered: the second is for one that has waited for the disk.

Clients wait 10 s longer than the polling time; what was popped for one that has gone is back only after its invisible
time.
"""
_SHORT_NAMES = MAX_BYTES - len(RETRY_PREFIX) - 1
"""Maximum length of topic plus group for which the name of their retry topic is short enough without a check."""
_PASSED_OVER = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_FOUND_NULL, GetStatus.MESSAGE_WAS_REMOVING)


class _PopState(msgspec.Struct):
    """State of a pop while it reads queues: the request, and the messages for its answer.

    :ivar pop_time: when the pop began, in milliseconds since the epoch.
    :ivar residency: for reads that do not wait for the disk; None if the platform cannot tell what is in memory.
    :ivar count: the number of messages for the answer.
    :ivar end: offset up to which the commit log must be on disk and on slaves before the answer is sent; 0 for none.
    :ivar rest: the number of messages left in the queues.
    :ivar damaged: the damaged messages that were left out, as entries of the answer.
    :ivar passed_over: True if messages did not match the filter, or it has reached its limit of evaluated records.
    """

    peer: Peer
    header: PopMessage
    accepts: TagsCodeFilter | None
    wants: SqlRecords | None
    pop_time: int
    revive_queue: int
    residency: Residency | None
    count: int = 0
    rest: int = 0
    end: int = 0
    passed_over: bool = False
    pieces: list[Buffer] = msgspec.field(default_factory=list)
    starts: list[str] = msgspec.field(default_factory=list)
    offsets: list[str] = msgspec.field(default_factory=list)
    order_counts: list[str] = msgspec.field(default_factory=list)
    damaged: list[str] = msgspec.field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.count >= self.header.max_msg_nums


class _ColdPop(NamedTuple):
    """What a pop that waits for the disk needs to run again.

    :ivar chance: the number that selected its first queue: the one whose messages were loaded.
    """

    residency: Residency | None
    chance: int


class PopService:
    """Answers pops.

    :param polling: holds the pops that find nothing.
    :param ack_waiter: delays answers until check-points are on disk and on slaves; None: answers are immediate.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        checks: PopChecks,
        reader: PopReader,
        revive_log: ReviveLog,
        orders: OrderTable,
        polling: PopLongPollingService,
        stats: Stats,
        ack_waiter: AckWaiter | None,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._checks = checks
        self._reader = reader
        self._offsets = reader.offsets
        self._revive_log = revive_log
        self._orders = orders
        self._polling = polling
        self._stats = stats
        self._ack_waiter = ack_waiter
        self._clock = clock
        self.random_below: Callable[[int], int] = _random_below
        """Returns a random number below its argument; it selects the first queue, and the order of retry and topic."""

    def pop(self, peer: Peer, request: Request, born: int | None = None, cold: _ColdPop | None = None) -> Reply | Hold:
        """Answer a pop, or hold it: if there is no message, or until messages are loaded from disk.

        :param born: when the client made the request, in milliseconds; by default the time in its header.
        :param cold: None unless this pop runs again after a load from disk.
        """
        header: PopMessage = request.header
        now = self._clock()
        born = born or header.born_time or now
        late_ms = _LATE_MS if cold is None else _LATE_AFTER_LOAD_MS
        topic = self._admit(peer, header, now - born - header.poll_time > late_ms)
        if isinstance(topic, Reply):
            return topic
        accepts, wants = pop_filters(header)
        queue = pop_handle.ORDER_REVIVE_QUEUE if header.order else self._revive_queue(header.invisible_time)
        residency, chance = cold or _ColdPop(self._reader.new_residency(), self.random_below(100))
        state = _PopState(peer, header, accepts, wants, now, queue, residency)
        try:
            self._collect(state, topic, chance)
        except NotInMemory as missing:
            run = partial(self.pop, peer, request, born, _ColdPop(residency, chance))
            return Hold(COLD, 0, ColdRead(run, missing.parts))
        key = PollKey(header.topic, header.consumer_group, header.queue_id)
        if state.count:
            if state.rest > 0:
                self._polling.wake(key)
            return self._found(state)
        self._stats.missed()
        if state.damaged:  # answered at once, because the answer tells of them
            return Reply(Code.POLLING_TIMEOUT, "NO_MATCHED_MESSAGE", self._answer(state))
        goes_on = state.passed_over and state.rest > 0
        return self._hold(key, state, HeldPop(self._pop_again, peer, request, born, goes_on))

    def _pop_again(self, held: HeldPop) -> Reply | Hold:
        return self.pop(held.peer, held.request, held.born)

    def _admit(self, peer: Peer, header: PopMessage, is_late: bool) -> TopicConfig | Reply:
        ip = self._config.broker_ip1
        if is_late:
            return Reply(Code.POLLING_TIMEOUT, f"the broker[{ip}] pop message is timeout too much", NO_MESSAGES)
        self._checks.check_broker_readable("pop message")
        if header.max_msg_nums > MAX_MESSAGES:
            remark = f"the broker[{ip}] pop message's num is greater than {MAX_MESSAGES}"
            raise BrokerError.of(Code.INVALID_PARAMETER, remark)
        self._checks.check_invisible_time(header.invisible_time)
        topic = self._checks.check_readable(peer, header)
        self._check_return(header)
        return topic

    def _check_return(self, header: PopMessage) -> None:
        """Refuse a pop whose messages could not be revived, because its retry topic's name is no valid directory name.

        :raises BrokerError: INVALID_PARAMETER.
        """
        if header.order or len(header.topic) + len(header.consumer_group) <= _SHORT_NAMES:
            return
        fault = component_fault(pop_handle.pop_retry_topic(header.topic, header.consumer_group, v2=False))
        if fault is not None and not is_retry_topic(header.topic):
            remark = f"the retry topic of topic[{header.topic}] and group[{header.consumer_group}] is illegal: {fault}"
            raise BrokerError.of(Code.INVALID_PARAMETER, remark)

    def _revive_queue(self, invisible_ms: int) -> int:
        return revive_queue(invisible_ms, self._config.revive_queue_num)

    # -- which queues

    def _collect(self, state: _PopState, topic: TopicConfig, chance: int) -> None:
        """Read the queues of the topic, and those of the retry topic before or after them.

        The retry topic is read first in ``popFromRetryProbability`` percent of the pops, by an orderly pop never. In a
        topic with priorities, pops begin at the queue of the highest priority (see :meth:`PopChecks.priority_factor`),
        and the percentage is ``popFromRetryProbabilityForPriority``.

        :param chance: a random number from 0 to 99.
        :raises NotInMemory: the first messages are not in memory; none was popped.
        """
        header, config = state.header, self._config
        by_priority = has_priorities(topic) and not header.order
        by_priority = by_priority and chance < self._checks.priority_factor(header.consumer_group)
        retry_first = chance < (
            config.pop_from_retry_probability_for_priority if by_priority else config.pop_from_retry_probability
        )
        retry = None if header.order else self._retry_topic(header, chance)
        chance = 0 if by_priority else chance
        if retry is not None and retry_first:
            self._all_queues(state, retry, chance)
        if header.queue_id < 0:
            self._all_queues(state, topic, chance)
        else:
            self._queue(state, topic.topic_name, header.queue_id)
        if retry is not None and not retry_first and not state.is_full:
            self._all_queues(state, retry, chance)

    def _retry_topic(self, header: PopMessage, chance: int) -> TopicConfig | None:
        """Return the retry topic to read, None if it does not exist.

        With ``enableRetryTopicV2`` that is the one of version 2 for an odd ``chance``, the one of version 1 for an even
        ``chance``; always version 2 if ``retrieveMessageFromPopRetryTopicV1`` is off.
        Without ``enableRetryTopicV2`` it is version 1.

        :param chance: a random number from 0 to 99, drawn once per pop.
        """
        config = self._config
        v2 = config.enable_retry_topic_v2
        if v2 and config.retrieve_message_from_pop_retry_topic_v1 and chance % 2 == 0:
            v2 = False
        return self._reader.retry_topic(header.topic, header.consumer_group, v2=v2)

    def _all_queues(self, state: _PopState, topic: TopicConfig, chance: int) -> None:
        queues = topic.read_queue_nums
        in_turn = range(queues - 1, -1, -1) if self._config.priority_order_asc else range(queues)
        for i in in_turn:
            self._queue(state, topic.topic_name, (chance + i) % queues)

    # -- one queue

    def _queue(self, state: _PopState, topic: str, queue_id: int) -> None:
        """Read a queue; skip it if its messages are not in memory and other queues have had some.

        :raises NotInMemory: its messages are not in memory, and no message was popped yet.
        """
        try:
            self._read_queue(state, topic, queue_id)
        except NotInMemory:
            if not state.count:
                raise
            state.rest += self._reader.rest(state.header.consumer_group, topic, queue_id)

    def _read_queue(self, state: _PopState, topic: str, queue_id: int) -> None:
        header = state.header
        group = header.consumer_group
        if not self._reader.is_readable(topic, queue_id):
            return
        start = self._start(state, topic, queue_id)
        if header.order:
            key = OrderKey(topic, group, queue_id)
            if self._orders.is_blocked(key, header.attempt_id, state.pop_time, header.invisible_time):
                return
        end = self._reader.end(topic, queue_id)
        if start == end:  # most queues of a topic with many: nothing to read
            return
        if state.is_full or (state.wants is not None and state.wants.is_spent):
            state.rest += end - start
            state.passed_over |= not state.is_full
            return
        wanted = header.max_msg_nums - state.count
        begun, found = self._reader.get(
            topic, queue_id, start, wanted, state.accepts, state.wants, state.residency
        )  # fmt: skip
        if begun != start:
            self._offsets.commit(group, topic, queue_id, begun, state.peer.address)
        if found.damaged:
            state.damaged.append(pop_handle.msg_offset_entry(topic, queue_id, found.damaged))
        if found.count:
            self._take(state, topic, queue_id, begun, found)
        elif found.status in _PASSED_OVER and found.next_offset > begun:
            self._offsets.commit(group, topic, queue_id, found.next_offset, state.peer.address)
            state.passed_over = True
        state.rest += found.max_offset - found.next_offset

    def _start(self, state: _PopState, topic: str, queue_id: int) -> int:
        group = state.header.consumer_group
        if self._offsets.has_reset(group, topic, queue_id):
            reset = self._offsets.take_reset(group, topic, queue_id)
            if reset is not None and self._config.use_server_side_reset_offset:
                self._orders.forget(OrderKey(topic, group, queue_id))
                self._offsets.commit(group, topic, queue_id, reset, "a reset")
                return reset
        return self._reader.start(group, topic, queue_id, state.header.init_mode, state.residency)

    def _take(self, state: _PopState, topic: str, queue_id: int, start: int, found: GetResult) -> None:
        """Record that the messages in ``found`` are popped, and add them to the answer.

        A pop in order is recorded in the order info table, any other one by a check-point in the revive log.

        :param start: the queue offset from which ``found`` was read.
        """
        header = state.header
        group = header.consumer_group
        offsets = offsets_of(start, found)
        if header.order:
            self._take_in_order(state, topic, queue_id, offsets)
            self._offsets.commit(group, topic, queue_id, start, state.peer.address)
        else:
            appended = self._revive_log.check_point(
                CheckPoint(
                    topic=topic, group=group, queue_id=queue_id, start_offset=start, pop_time=state.pop_time,
                    broker_name=self._config.broker_name, invisible_ms=header.invisible_time, count=found.count,
                    diffs=_distances(offsets, start),
                ),
                state.revive_queue,
            )  # fmt: skip
            if appended is not None:
                state.end = appended.physical_offset + appended.size
            self._offsets.commit(group, topic, queue_id, found.next_offset, state.peer.address)
        state.count += found.count
        state.starts.append(pop_handle.start_offset_entry(topic, queue_id, start))
        state.offsets.append(pop_handle.msg_offset_entry(topic, queue_id, offsets))
        state.pieces.append(self._body(state, topic, queue_id, start, found.body))
        self._stats.pulled_by_pop(group, topic, found.count, len(found.body))

    def _take_in_order(self, state: _PopState, topic: str, queue_id: int, offsets: Sequence[int]) -> None:
        header = state.header
        key = OrderKey(topic, header.consumer_group, queue_id)
        popped = self._orders.pop(
            key, header.attempt_id, offsets, state.pop_time, header.invisible_time, self._clock()
        )  # fmt: skip
        state.order_counts += [
            *(pop_handle.offset_count_entry(topic, queue_id, offset, count) for offset, count in popped.counts.items()),
            pop_handle.queue_count_entry(topic, queue_id, popped.least),
        ]

    def _body(self, state: _PopState, topic: str, queue_id: int, start: int, body: Buffer) -> Buffer:
        header, name = state.header, self._config.broker_name
        if topic == header.topic or self._config.pop_response_return_actual_retry_topic:
            return body
        flag = pop_handle.retry_flag(topic)
        handle = ExtraInfo(start, state.pop_time, header.invisible_time, state.revive_queue, flag, name, queue_id)
        return as_popped(bytes(body), header.topic, handle)

    # -- the answer

    def _found(self, state: _PopState) -> Reply | Hold:
        reply = Reply(Code.SUCCESS, "FOUND", self._answer(state), body=state.pieces)
        if self._ack_waiter is None or not state.end:
            return reply
        reply.body = b"".join(state.pieces)  # views of the log are valid for an immediate answer only
        return self._ack_waiter.answer_regardless(reply, state.end)

    def _hold(self, key: PollKey, state: _PopState, held: HeldPop) -> Reply | Hold:
        deadline = held.born + state.header.poll_time
        code = self._polling.refusal(key, deadline - self._clock(), state.header.poll_time)
        if code is None:
            return Hold(key, deadline, Poll(deadline, state.accepts, state.wants, held))
        return Reply(code, "NO_MESSAGE_IN_QUEUE", self._answer(state))

    def _answer(self, state: _PopState) -> PopResponse:
        return PopResponse(
            pop_time=state.pop_time, invisible_time=state.header.invisible_time, revive_qid=state.revive_queue,
            rest_num=state.rest, start_offset_info=pop_handle.join_entries(state.starts),
            msg_offset_info=pop_handle.join_entries(state.offsets),
            order_count_info=pop_handle.join_entries(state.order_counts) if state.header.order else None,
            damaged=pop_handle.join_entries(state.damaged) or None,
        )  # fmt: skip


def _random_below(end: int) -> int:
    return int(random.random() * end)


def _distances(offsets: Sequence[int], start: int) -> list[int]:
    """Return the distances of queue offsets from ``start``."""
    if isinstance(offsets, range):
        return list(range(offsets.start - start, offsets.stop - start))
    return [offset - start for offset in offsets]


def pop_filters(header: PopMessage | Notification) -> tuple[TagsCodeFilter | None, SqlRecords | None]:
    """Return the tag filter and the SQL filter of a pop or notification; one of them or both are None.

    :raises BrokerError: SUBSCRIPTION_PARSE_FAILED.
    """
    if not header.exp:
        return None, None
    try:
        subscription = parse_subscription(header.topic, header.exp, header.exp_type)
        if is_tag_type(subscription.expression_type):
            return tag_filter(subscription), None
        compiled = compile_filter(subscription.expression_type, subscription.sub_string)
    except (BadHeader, ConfigError) as e:
        remark = f"parse the consumer's subscription failed: {e}"
        raise BrokerError.of(Code.SUBSCRIPTION_PARSE_FAILED, remark) from None
    return None, sql_filter(lambda _: compiled, compiled.cost)
