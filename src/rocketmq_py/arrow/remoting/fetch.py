"""Fetch one range of offsets of one queue by pulls over a blocking connection, with retries.

``core.consumer.pull_window`` decides which pulls to send. Bodies are not decoded here. Deleted messages are an error,
or logged and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from rocketmq_py.arrow.options.security import OPEN, Security
from rocketmq_py.arrow.ranges import DataLossError, QueueRange
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.remoting.connection import IdleConnections, connect
from rocketmq_py.arrow.remoting.filters import EVERYTHING, MessageFilter
from rocketmq_py.arrow.remoting.queues import Addresses
from rocketmq_py.arrow.remoting.retry import new_retry
from rocketmq_py.core.consumer.pull_result import damaged_offsets, located_records
from rocketmq_py.core.consumer.pull_window import FetchedChunk, Pull, Segment, Window
from rocketmq_py.core.consumer.subscription import ALL, TAG
from rocketmq_py.core.logical_queues import is_logical
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import (
    BrokerError,
    ConfigError,
    NetworkError,
    NoRouteError,
    NotLeader,
    RocketMQError,
    TopicNotExist,
)
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.protocol.remarks import NO_FILTER
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION
from rocketmq_py.remoting.blocking import BlockingConnection

_log = logging.getLogger(__name__)

READ_GROUP = "TOOLS_CONSUMER"
"""The consumer group of pulls without option ``groupId``. It is built into every broker, so a read creates no group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Settings with which a query fetches its ranges; see :class:`ReadOptions` for their meanings.

    :ivar timeout: seconds to wait for a response.
    :ivar wanted: the message filter.
    """

    namesrv: tuple[str, ...]
    timeout: float
    retries: int
    in_flight: int
    fail_on_data_loss: bool
    group: str = READ_GROUP
    wanted: MessageFilter = EVERYTHING
    security: Security = OPEN


class Lag(RocketMQError):
    """A broker lacks messages that another broker may have, as a slave does that lags behind its master; retryable."""

    retryable = True


class UnprovenLoss(Lag):
    """A broker reports that offsets of the range have no messages; a data loss only if retries give the same result."""


class SlaveClosed(NoRouteError):
    """The broker is a slave with ``slaveReadEnable=false``, which responds as if there were no messages."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(f"{address} is a slave that does not serve reads: slaveReadEnable is false there")

    def __reduce__(self) -> tuple[type[SlaveClosed], tuple[str]]:
        return type(self), (self.address,)


class Fetcher:
    """Fetches the messages of one range of a queue; each object is used for a single read. Close it when done.

    Pulls from the master; from a slave if the master suggests it or cannot be reached; and from the master again if the
    slave suggests that or lacks messages.

    :param wanted: the range of offsets.
    :param addresses: master and slaves of the queue; looked up again if none responds.
    :param idle: pool of connections that other ranges of the task have used; None for no pool.
    """

    def __init__(
        self, wanted: QueueRange, addresses: Addresses, settings: FetchSettings, idle: IdleConnections | None = None
    ) -> None:
        self._queue = wanted.queue
        self._start = wanted.start
        self._servers = addresses
        self._addresses = addresses.all
        self._idle = idle
        self._whole = False
        self._settings = settings
        self._window = Window(wanted.start, wanted.stop, settings.in_flight, filtered=not settings.wanted.takes_all)
        self._suggested: str | None = None
        self._distrusted: set[str] = set()
        self._retry = new_retry(settings.retries, f"reading {wanted.queue}")
        self._connection: BlockingConnection | None = None
        self._inflight: dict[int, Segment] = {}
        self._first: Segment | None = None
        self._answer: Reply | None = None
        self._failure: RocketMQError | None = None
        self._accepts_losses = False
        self._compacted: bool | None = None
        self.between = 0
        """Number of offsets of a logical queue that belong to none of its physical queues."""
        self.skipped = 0
        """Number of offsets skipped because their messages were deleted, with ``failOnDataLoss=false``."""

    def take(self, answer: Reply) -> None:
        """Take the response to a pull of the whole range that the caller has sent; :meth:`chunks` handles it.

        :param answer: from the master.
        """
        (pull,) = self._window.pulls()
        self._first, self._answer = pull.segment, answer

    def begin(self) -> None:
        """Send the first pulls now, so that the broker already reads while the caller still decodes other ranges.

        Optional: otherwise :meth:`chunks` sends them.

        :raises RocketMQError: as :meth:`chunks`.
        """
        try:
            self._send_pulls()
        except (NetworkError, NoRouteError) as e:
            self._reconnect(e)

    def chunks(self) -> Iterator[list[FetchedChunk]]:
        """Yield the bodies of pull responses in the order of offsets, as soon as they arrive.

        :raises DataLossError: messages were deleted, and ``failOnDataLoss`` is true.
        :raises RocketMQError: the queue cannot be read after all retries.
        """
        while not self._window.done:
            try:
                self._exchange()
            except (NetworkError, NoRouteError) as e:
                self._reconnect(e)
            chunks = self._window.chunks()
            if chunks:
                yield chunks
        self._whole = True

    def close(self) -> None:
        """Close the connection, or return it to the pool if the whole range was read."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._idle is not None and self._whole:
            self._idle.put(connection)
        else:
            connection.close()

    def _send_pulls(self) -> BlockingConnection:
        """Connect if necessary, and send the pulls that the :class:`Window` has to send now; return the connection."""
        if self._connection is None:
            self._connection = self.connect()
            if self._at_slave and not self._settings.wanted.takes_all:
                self._probe(self._connection)
        connection = self._connection
        if self._failure is None and self._suggested is None:
            self._send(connection, self._window.pulls())
        return connection

    def connect(self) -> BlockingConnection:
        """Return a connection to the broker, from the pool or a new one.

        :raises NetworkError: the broker cannot be reached.
        :raises NoRouteError: no broker is registered.
        """
        if not self._addresses:
            raise NoRouteError(f"no broker serves {self._queue} now: {self._queue.broker_name} is not registered")
        known = None if self._idle is None else self._idle.take(self._addresses[0])
        return known or connect(self._addresses[0], self._settings.timeout, self._settings.security)

    def _exchange(self) -> None:
        """Send pulls, wait for a response, and handle it and all others that have arrived."""
        answer, segment = self._answer, self._first
        if answer is not None and segment is not None:
            self._answer = self._first = None
            self._handle_answer(segment, answer)
            self._after_last_answer()
            return
        connection = self._send_pulls()
        while self._inflight:
            answer = connection.receive()
            segment = self._inflight.pop(answer.opaque)
            self._handle_answer(segment, answer)
            if not connection.arrived:
                break
        if not self._inflight:
            self._after_last_answer()

    def _after_last_answer(self) -> None:
        """Retry if a pull failed, else switch to the suggested broker, if any; called when no pull is in flight."""
        suggested, self._suggested = self._suggested, None
        failure, self._failure = self._failure, None
        if isinstance(failure, NotLeader):
            self._retry.failed(failure)
            self._use(self._look_up())
        elif failure is not None:
            if isinstance(failure, UnprovenLoss) and self.is_compacted():
                return
            if isinstance(failure, Lag) and len(self._addresses) > 1:
                self._distrusted.add(self._addresses[0])
                self._switch_to(self._addresses[1])
            self._try_again(failure)
        elif suggested is not None:
            _log.info("reading %s from %s, as %s suggests", self._queue, suggested, self._addresses[0])
            self._switch_to(suggested)

    def _try_again(self, failure: RocketMQError) -> None:
        """Sleep before the next attempt, once for all pulls that failed together.

        :raises DataLossError: messages are missing after all retries, and ``failOnDataLoss`` is true.
        :raises RocketMQError: the retries are used up.
        """
        try:
            self._retry.failed(failure)
        except UnprovenLoss as e:  # no broker has these messages
            if self._settings.fail_on_data_loss:
                raise DataLossError([str(e)]) from e
            self._accepts_losses = True
            self._retry.succeeded()

    def is_compacted(self) -> bool:
        """Return True if the topic is compacted, so that offsets without messages are no loss.

        Asks the broker on the first call, when no pull may be in flight. False if the broker does not say.

        :raises NetworkError: the broker does not respond.
        """
        if self._compacted is None:
            if self._connection is None:
                self._connection = self.connect()
            try:
                answer = self._connection.call(RequestCode.GET_TOPIC_CONFIG, TopicName(topic=self._queue.topic))
            except BrokerError as e:
                _log.info("whether topic %s is compacted is not known: %s", self._queue.topic, e)
                self._compacted = False
            else:
                policy = TopicConfig.decode(answer.body).attributes.get("cleanup.policy", "")
                self._compacted = policy == "COMPACTION"
        return self._compacted

    def _switch_to(self, address: str) -> None:
        self.close()
        at = self._addresses.index(address)
        self._addresses = self._addresses[at:] + self._addresses[:at]

    def _probe(self, connection: BlockingConnection) -> None:
        """Check with an unfiltered pull that a slave serves reads: refusals of filtered pulls look like no matches.

        :raises SlaveClosed: the slave does not serve reads.
        """
        fields = {**self._fields(Pull(self._start, 1, Segment(0, 1))), "subscription": ALL, "expressionType": TAG}
        connection.send([(RequestCode.PULL_MESSAGE, fields, b"")])
        if connection.receive().code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            raise SlaveClosed(connection.address)

    @property
    def _at_slave(self) -> bool:
        return self._addresses[0] != self._servers.master

    def _send(self, connection: BlockingConnection, pulls: list[Pull]) -> None:
        if not pulls:
            return
        try:
            opaques = connection.send([(RequestCode.PULL_MESSAGE, self._fields(pull), b"") for pull in pulls])
        except NetworkError:
            for pull in pulls:
                self._window.failed(pull.segment)
            raise
        self._inflight.update(zip(opaques, [pull.segment for pull in pulls], strict=True))

    def _fields(self, pull: Pull) -> dict[str, str]:
        return pull_fields(self._queue, self._settings, pull.offset, pull.number)

    def _handle_answer(self, segment: Segment, answer: Reply) -> None:
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and self._at_slave and self._settings.wanted.takes_all:
            self._window.failed(segment)
            raise SlaveClosed(self._addresses[0])
        if answer.code in _READ:
            found = answer.header(PullResponse)
            self._advance(segment, answer, found)
            self._note_suggestion(found.suggest_which_broker_id)
        elif answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self._handle_offset_moved(segment, answer.header(PullResponse))
        else:
            error: RocketMQError = BrokerError.of(answer.code, answer.remark, self._addresses[0])
            if NO_FILTER in (answer.remark or ""):
                raise ConfigError(f"{error}: option sql needs enablePropertyFilter=true there")
            if isinstance(error, TopicNotExist) and self._at_slave:  # slaves get topics later than messages
                error = Lag(f"{self._addresses[0]}, a slave, does not have topic {self._queue.topic} yet")
            self._retry_segment(segment, error)

    def _note_suggestion(self, broker_id: int) -> None:
        """Store the broker that a response suggests for further pulls: a slave for messages not in the master's memory.

        Brokers that lacked messages earlier are ignored.
        """
        address = self._servers.of(broker_id)
        if address is not None and address != self._addresses[0] and address not in self._distrusted:
            self._suggested = address

    def _advance(self, segment: Segment, answer: Reply, found: PullResponse) -> None:
        if found.next_begin_offset <= segment.start:
            self._retry_segment(segment, Lag(
                f"{self._addresses[0]} has nothing at offset {segment.start} of {self._queue}, its end is"
                f" {found.max_offset}"
            ))  # fmt: skip
            return
        if any(offset < segment.stop for offset in damaged_offsets(found, segment.start)):
            self._window.answer(segment, b"", found.next_begin_offset, is_damaged=True)
        elif answer.code == ResponseCode.SUCCESS and answer.body:
            body = located_records(answer.body, found, self._queue.queue_id)
            self._answered(segment, body, found.next_begin_offset)
        elif self._is_unmatched(answer):
            self._answered(segment, b"", found.next_begin_offset)
        elif self._is_between(answer):
            self.between += min(found.next_begin_offset, segment.stop) - segment.start
            self._answered(segment, b"", found.next_begin_offset)
        else:
            stop = min(found.next_begin_offset, segment.stop)
            self._leave_out(segment, stop, (
                f"{self._addresses[0]} has no messages at offsets {segment.start} to {stop - 1} of {self._queue}"
                f" ({answer.remark}): a file of its log is missing, or it does not serve reads"
            ))  # fmt: skip

    def _answered(self, segment: Segment, body: bytes, next_offset: int) -> None:
        if self._window.is_first(segment):  # later segments may succeed again and again while the first one fails
            self._retry.succeeded()
        self._window.answer(segment, body, next_offset)

    def _is_unmatched(self, answer: Reply) -> bool:
        """Return True if a response has no messages because none matches the filter; its remark shows the reason."""
        is_filtered = not self._settings.wanted.takes_all
        return (
            is_filtered
            and answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
            and answer.remark not in _OTHER_READ_STATUSES
        )

    def _is_between(self, answer: Reply) -> bool:
        """Return True if a logical queue has no messages at these offsets because its next physical queue starts later.

        Java's broker returns no remark if another broker has the physical queue.
        """
        return (
            is_logical(self._queue)
            and answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
            and answer.remark not in _OTHER_READ_STATUSES
        )

    def _leave_out(self, segment: Segment, stop: int, loss: str) -> None:
        """Handle offsets, up to ``stop``, at which a broker has no messages.

        The offsets are skipped if the topic is compacted, or if retries have confirmed the loss and it is accepted.
        Otherwise they are pulled again, since a slave, or a broker that has just started, may lack messages for now.

        :param loss: describes the loss.
        """
        if self._compacted:
            self._answered(segment, b"", stop)
        elif self._accepts_losses:
            self._skip(segment, stop, loss)
        else:
            self._retry_segment(segment, UnprovenLoss(loss))

    def _skip(self, segment: Segment, stop: int, loss: str) -> None:
        """Skip deleted messages, up to offset ``stop``, with a warning.

        :param loss: describes the loss.
        :raises DataLossError: ``failOnDataLoss`` is true.
        """
        if self._settings.fail_on_data_loss:
            raise DataLossError([loss])
        _log.warning("%s; going on, since failOnDataLoss is false", loss)
        self.skipped += stop - segment.start
        self._answered(segment, b"", stop)

    def _handle_offset_moved(self, segment: Segment, found: PullResponse) -> None:
        """Handle PULL_OFFSET_MOVED: the broker does not have the offset any more, or the queue was created again.

        :raises DataLossError: messages were deleted, and ``failOnDataLoss`` is true.
        """
        start = segment.start
        beyond = start >= found.max_offset
        if found.min_offset <= start < found.max_offset:  # for example after the offset of the group was reset
            self._retry_segment(segment, Lag(
                f"{self._addresses[0]} does not read offset {start} of {self._queue}, although it holds"
                f" {found.min_offset} to {found.max_offset}"
            ))  # fmt: skip
        elif self._at_slave and (beyond or self._servers.master not in (None, *self._distrusted)):
            self._retry_segment(segment, Lag(
                f"{self._addresses[0]}, a slave, does not have offset {start} of {self._queue}, it holds"
                f" {found.min_offset} to {found.max_offset}"
            ))  # fmt: skip
        elif beyond:
            stop = segment.stop
            loss = f"offsets {start} to {stop - 1} of {self._queue} are gone, it ends at {found.max_offset}"
            self._leave_out(segment, stop, loss)
        else:
            stop = min(found.min_offset, segment.stop)
            self._skip(segment, stop, f"offsets {start} to {stop - 1} of {self._queue} have been removed by retention")

    def _retry_segment(self, segment: Segment, error: RocketMQError) -> None:
        self._window.failed(segment)
        if self._failure is None or not error.retryable:
            self._failure = error

    def _reconnect(self, error: NetworkError | NoRouteError) -> None:
        """Mark all pulls in flight as failed, and switch to another address of the broker if there is one.

        :raises RocketMQError: the retries are used up.
        """
        self.close()
        for segment in self._inflight.values():
            self._window.failed(segment)
        self._inflight.clear()
        self._failure = None
        self._suggested = None
        self._retry.failed(error)
        self._distrusted.update(self._addresses[:1])
        self._addresses = self._addresses[1:] + self._addresses[:1]
        if self._retry.failures >= len(self._addresses):
            self._use(self._look_up())

    def _use(self, found: Addresses) -> None:
        """Switch to the addresses ``found`` of the queue's broker; no effect if there are none."""
        if found.all:
            self.close()
            self._servers, self._addresses = found, found.all
            self._distrusted.clear()

    def _look_up(self) -> Addresses:
        """Look up the addresses of the queue's broker; empty if there are none or no name server responds."""
        cluster = Cluster(self._settings.namesrv, self._settings.timeout, 0, self._settings.security)
        try:
            return cluster.readable([self._queue.topic]).addresses.get(self._queue, Addresses())
        except RocketMQError as e:
            _log.info("no new address of %s: %s", self._queue, e)
            return Addresses()
        finally:
            cluster.close()


_OTHER_READ_STATUSES = frozenset({"FOUND", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL"})
"""Remarks of responses that lack messages for another reason than the filter: messages could not be read, or were found
but not returned, as by a slave with ``slaveReadEnable=false``."""
_READ = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


def pull_fields(queue: MessageQueue, settings: FetchSettings, offset: int, number: int) -> dict[str, str]:
    """Return the encoded header fields of a pull of at most ``number`` messages from ``offset`` on."""
    wanted = settings.wanted
    return {
        **_fields(queue.topic, queue.broker_name, settings.group, wanted.expression, wanted.kind),
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(number),
    }


@lru_cache(maxsize=64)
def _fields(topic: str, broker_name: str, group: str, expression: str, kind: str) -> dict[str, str]:
    """Return the encoded header fields that are the same in all pulls of a topic. Do not change the dictionary."""
    header = PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=1,
        sys_flag=PULL_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=expression,
        sub_version=0,
        expression_type=kind,
        bname=broker_name,
        bulk=True,
    )
    return header.to_ext()
