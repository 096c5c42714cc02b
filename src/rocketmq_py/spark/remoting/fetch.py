"""Fetching one range of one queue: pulls over a blocking connection, failures survived, losses reported.

Knows what the answers to a pull mean. Which pulls to send is decided in ``window``; bodies are not looked into.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from rocketmq_py.core.consumer.subscription import ALL, TAG
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, NoRouteError, RocketMQError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.protocol.remarks import NO_FILTER
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION
from rocketmq_py.spark.options.security import OPEN, Security
from rocketmq_py.spark.remoting.cluster import Cluster
from rocketmq_py.spark.remoting.connection import BlockingConnection
from rocketmq_py.spark.remoting.fetched import FetchedChunk
from rocketmq_py.spark.remoting.filters import EVERYTHING, MessageFilter
from rocketmq_py.spark.remoting.pull_window import Pull, Segment, Window
from rocketmq_py.spark.remoting.queues import Addresses
from rocketmq_py.spark.remoting.retry import Retry
from rocketmq_py.spark.source.plan import DataLossError, QueueRange
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

READ_GROUP = "TOOLS_CONSUMER"
"""The group pulls are made under unless another is asked for. Every broker has this one built in, so that reading
leaves no group behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How to fetch; the same for all ranges of a query. See ``ReadOptions`` for the meaning of each."""

    namesrv: tuple[str, ...]
    timeout: float
    retries: int
    in_flight: int
    fail_on_data_loss: bool
    group: str = READ_GROUP
    wanted: MessageFilter = EVERYTHING
    security: Security = OPEN


class Lag(RocketMQError):
    """The broker does not have (yet) what another answer said it has; a slave that lags behind, for one."""

    retryable = True


class SlaveClosed(NoRouteError):
    """A slave that does not serve reads: it answers as if there were no messages."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(f"{address} is a slave that does not serve reads: slaveReadEnable is false there")

    def __reduce__(self) -> tuple[type[SlaveClosed], tuple[str]]:
        return type(self), (self.address,)


class Fetcher:
    """Fetches one range once. Close it when done.

    Begins at the master, goes to a slave when the master suggests it or cannot be reached, and back when the slave
    suggests that or lacks something.

    :param wanted: what to fetch.
    :param addresses: where the queue is served; asked for anew when nobody answers.
    """

    def __init__(self, wanted: QueueRange, addresses: Addresses, settings: FetchSettings) -> None:
        self._queue = wanted.queue
        self._start = wanted.start
        self._servers = addresses
        self._addresses = addresses.all
        self._settings = settings
        self._header = _header(wanted, settings)
        self._window = Window(wanted.start, wanted.stop, settings.in_flight, filtered=not settings.wanted.takes_all)
        self._suggested: str | None = None
        self._distrusted: set[str] = set()
        self._retry = Retry(settings.retries, f"reading {wanted.queue}")
        self._connection: BlockingConnection | None = None
        self._under_way: dict[int, Segment] = {}
        self._trouble: RocketMQError | None = None
        self._told_of_a_gap = False

    def begin(self) -> None:
        """Send the first pulls, so that the broker works while others are read; :meth:`pieces` does so otherwise.

        :raises RocketMQError: as :meth:`pieces`.
        """
        try:
            self._ask()
        except (NetworkError, NoRouteError) as e:
            self._reconnect(e)

    def pieces(self) -> Iterator[list[FetchedChunk]]:
        """Pull bodies in the order of offsets, as they come in.

        :raises DataLossError: messages are gone and the settings say to fail.
        :raises RocketMQError: the broker cannot be read, all attempts used up.
        """
        while not self._window.done:
            try:
                self._turn()
            except (NetworkError, NoRouteError) as e:
                self._reconnect(e)
            pieces = self._window.pieces()
            if pieces:
                yield pieces

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self) -> BlockingConnection:
        """Send what may be sent."""
        if self._connection is None:
            if not self._addresses:
                raise NoRouteError(f"no broker serves {self._queue} now: {self._queue.broker_name} is not registered")
            self._connection = BlockingConnection(self._addresses[0], self._settings.timeout, self._settings.security)
            if self._at_slave and not self._settings.wanted.takes_all:
                self._probe(self._connection)
        connection = self._connection
        if self._trouble is None and self._suggested is None:
            self._send(connection, self._window.pulls())
        return connection

    def _turn(self) -> None:
        """Send what may be sent, and take in all answers that are there, at least one."""
        connection = self._ask()
        while self._under_way:
            answer = connection.receive()
            segment = self._under_way.pop(answer.opaque)
            self._take(segment, answer)
            if not connection.arrived:
                break
        if not self._under_way:
            self._settle()

    def _settle(self) -> None:
        """Nothing is under way: go where the broker suggested, or face what went wrong."""
        suggested, self._suggested = self._suggested, None
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            if isinstance(trouble, Lag) and len(self._addresses) > 1:
                self._distrusted.add(self._addresses[0])
                self._turn_to(self._addresses[1])
            self._retry.failed(trouble)  # once for all pulls that were refused together
        elif suggested is not None:
            _log.info("reading %s from %s, as %s suggests", self._queue, suggested, self._addresses[0])
            self._turn_to(suggested)

    def _turn_to(self, address: str) -> None:
        self.close()
        at = self._addresses.index(address)
        self._addresses = self._addresses[at:] + self._addresses[:at]

    def _probe(self, connection: BlockingConnection) -> None:
        """Make sure that a slave serves reads; under a filter, its way to say no looks like no match."""
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
        self._under_way.update(zip(opaques, [pull.segment for pull in pulls], strict=True))

    def _fields(self, pull: Pull) -> dict[str, str]:
        return {**self._header, "queueOffset": str(pull.offset), "maxMsgNums": str(pull.number)}

    def _take(self, segment: Segment, answer: Command) -> None:
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and self._at_slave and self._settings.wanted.takes_all:
            self._window.failed(segment)
            raise SlaveClosed(self._addresses[0])
        if answer.code in _READ:
            found = PullResponse.from_ext(answer.ext)
            self._advance(segment, answer.body if answer.code == ResponseCode.SUCCESS else b"", found)
            self._consider(found.suggest_which_broker_id)
        elif answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self._moved(segment, PullResponse.from_ext(answer.ext))
        else:
            error = BrokerError.of(answer.code, answer.remark, self._addresses[0])
            if NO_FILTER in error.remark:
                raise ConfigError(f"{error}: option sql needs enablePropertyFilter=true there")
            self._refused(segment, error)

    def _consider(self, broker_id: int) -> None:
        """A broker says which of its siblings to ask next: a slave for what it no longer has in memory."""
        address = self._servers.of(broker_id)
        if address is not None and address != self._addresses[0] and address not in self._distrusted:
            self._suggested = address

    def _advance(self, segment: Segment, body: bytes, found: PullResponse) -> None:
        if found.next_begin_offset <= segment.start:
            self._refused(segment, Lag(
                f"{self._addresses[0]} has nothing at offset {segment.start} of {self._queue}, its end is"
                f" {found.max_offset}"
            ))  # fmt: skip
            return
        if not body and self._settings.wanted.takes_all and not self._told_of_a_gap:
            self._told_of_a_gap = True
            _log.warning(
                "%s has no messages at offsets %d to %d of %s: the topic is compacted, or a file of the log is missing",
                self._addresses[0], segment.start, min(found.next_begin_offset, segment.stop) - 1, self._queue,
            )  # fmt: skip
        self._window.answer(segment, body, found.next_begin_offset)
        self._retry.succeeded()

    def _moved(self, segment: Segment, found: PullResponse) -> None:
        """The queue does not hold the offset: retention was faster, or the queue has been created anew."""
        beyond = segment.start >= found.max_offset
        if self._at_slave and (beyond or self._servers.master not in (None, *self._distrusted)):
            self._refused(segment, Lag(
                f"{self._addresses[0]}, a slave, does not have offset {segment.start} of {self._queue}, it holds"
                f" {found.min_offset} to {found.max_offset}"
            ))  # fmt: skip
            return
        if segment.start < found.min_offset:
            upto = min(found.min_offset, segment.stop)
            self._lose(f"offsets {segment.start} to {upto - 1} of {self._queue} have been removed by retention")
        else:
            upto = segment.stop
            self._lose(
                f"offsets {segment.start} to {upto - 1} of {self._queue} are gone, it ends at {found.max_offset}"
            )
        self._window.answer(segment, b"", upto)

    def _lose(self, loss: str) -> None:
        if self._settings.fail_on_data_loss:
            raise DataLossError([loss])
        _log.warning("%s; going on, since failOnDataLoss is false", loss)

    def _refused(self, segment: Segment, error: RocketMQError) -> None:
        self._window.failed(segment)
        if self._trouble is None or not error.retryable:
            self._trouble = error

    def _reconnect(self, error: NetworkError | NoRouteError) -> None:
        """Everything under way is lost; go on at another address of the broker, if it has one."""
        self.close()
        for segment in self._under_way.values():
            self._window.failed(segment)
        self._under_way.clear()
        self._trouble = None
        self._suggested = None
        self._retry.failed(error)
        self._distrusted.update(self._addresses[:1])
        self._addresses = self._addresses[1:] + self._addresses[:1]
        if self._retry.failures >= len(self._addresses):
            found = self._look_up()
            if found.all:
                self._servers, self._addresses = found, found.all
                self._distrusted.clear()

    def _look_up(self) -> Addresses:
        """Where the queue is served by now, nowhere when nobody can tell."""
        cluster = Cluster(self._settings.namesrv, self._settings.timeout, 0, self._settings.security)
        try:
            return cluster.readable([self._queue.topic]).addresses.get(self._queue, Addresses())
        except RocketMQError as e:
            _log.info("no new address of %s: %s", self._queue, e)
            return Addresses()
        finally:
            cluster.close()


def begun(fetchers: Iterable[Fetcher], at_once: int) -> Generator[Fetcher]:
    """The fetchers in turn, each with the ones behind it having begun, and closed when its turn is over.

    :param at_once: how many have begun and are not over. Answers that wait are in the buffers of their connections.
    :raises RocketMQError: one of them cannot begin.
    """
    waiting = iter(fetchers)
    under_way: deque[Fetcher] = deque()
    try:
        while True:
            for fetcher in islice(waiting, at_once - len(under_way)):
                under_way.append(fetcher)
                fetcher.begin()
            if not under_way:
                return
            yield under_way[0]
            under_way.popleft().close()
    finally:
        for fetcher in under_way:
            fetcher.close()


_READ = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


def _header(wanted: QueueRange, settings: FetchSettings) -> dict[str, str]:
    """The fields all pulls of a range share, made once: there is a pull for every few messages."""
    topic, broker_name, queue_id = wanted.queue
    header = PullMessage(
        consumer_group=settings.group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=wanted.start,
        max_msg_nums=1,
        sys_flag=PULL_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=settings.wanted.expression,
        sub_version=0,
        expression_type=settings.wanted.kind,
        bname=broker_name,
        bulk=True,
    )
    return header.to_ext()
