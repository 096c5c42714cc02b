"""How one producer's messages reach brokers: the short way over a connection that is there, the long way otherwise.

The short way needs a known route and an open connection, and no task: it serves almost every send. Whatever is missing
or goes wrong is left to the long way, a coroutine that asks for routes, connects and tries other brokers. Both faces
of the producer are thin layers on this. Knows attempts and waiting for their end; the rules are in
``core.producer.send_attempts``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
import os
import random
import socket
import time
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from rocketmq_py.client.client_instance import ClientInstance, local_ip
from rocketmq_py.client.producer.latency_fault import LatencyFaultDetector
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
from rocketmq_py.core.producer.outgoing_message import Packer, SendHead
from rocketmq_py.core.producer.send_attempts import QueueChooser, RoundRobin, SendAttempts
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import ClosedError, ConfigError, NetworkError, NoRouteError, RequestTimeout, RocketMQError
from rocketmq_py.model import Message, MessageQueue, SendResult
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.remoting.connection import Connection, answer_callback
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.ids import UniqueKeys

_log = logging.getLogger(__name__)

SendFuture = asyncio.Future[SendResult] | concurrent.futures.Future[SendResult]
"""Hears how a send ended; an exception of another kind than ours is one of a queue selector."""


class Options(NamedTuple):
    """What a producer can be told about sending; see :class:`rocketmq_py.aio.Producer`."""

    send_timeout: float = 3.0
    retries: int = 2
    compress_over: int | None = 4096
    compression: CompressionType = CompressionType.ZLIB
    compression_level: int = 5
    max_message_size: int = names.MAX_MESSAGE_SIZE
    create_topic: str = names.AUTO_CREATE_TOPIC
    default_queue_nums: int = 4
    latency: LatencyFaultTolerance | None = None
    attempt_seconds: float = math.inf
    retry_not_stored_safely: bool = False


class Target(NamedTuple):
    """Where an attempt goes."""

    queue: MessageQueue
    address: str
    head: SendHead


class SendPath(NamedTuple):
    """What sends to one topic need to know, as long as its route stays the same."""

    route: TopicRoute
    turn: RoundRobin
    targets: dict[MessageQueue, Target]


class Sender:
    """Sends for one producer group.

    Methods that are not coroutines may be called from any thread unless they say otherwise.
    """

    def __init__(self, group: str, instance: ClientInstance, options: Options) -> None:
        self.options = options
        self._group = group
        self._routes = instance.routes
        self.connections = instance.connections
        self._packer = Packer(
            UniqueKeys(socket.inet_aton(local_ip()), os.getpid(), random.getrandbits(32), random.getrandbits(16)),
            compress_over=options.compress_over,
            compression=options.compression,
            compression_level=options.compression_level,
            max_message_size=options.max_message_size,
            signing=self.connections.credentials is not None,
        )
        self._ways: dict[str, SendPath] = {}
        self._turns: dict[str, RoundRobin] = {}
        self._under_way: set[SendAttempts] = set()
        self._tasks: set[asyncio.Task[SendResult]] = set()
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._idle: asyncio.Event | None = None
        self.tolerance: LatencyFaultDetector | None = None
        self._attempt_of: type[_Attempt] = _Attempt
        if options.latency is not None:
            self.tolerance = LatencyFaultDetector(options.latency, instance, lambda: self.topics)
            self._attempt_of = _TimedAttempt

    @property
    def topics(self) -> set[str]:
        """Topics that were sent to."""
        return set(self._turns)

    # -- preparing

    def delivery(
        self,
        message: Message | Iterable[Message],
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        choose: QueueChooser | None = None,
        sys_flag: int = 0,
    ) -> SendAttempts:
        """A message, or the messages of a batch, made ready; its time begins to run.

        :param sys_flag: bits of a single message's sysFlag.
        :raises MessageIllegal: no broker would take it.
        :raises ConfigError: ``queue`` is one of another topic.
        :raises ClosedError: the producer is closed.
        """
        self.connections.check_usable()
        if self._idle is not None:
            raise ClosedError("this producer is closed; make a new one")
        deadline = time.monotonic() + (self.options.send_timeout if timeout is None else timeout)
        now_ms = time.time_ns() // 1_000_000
        if isinstance(message, Message):
            outgoing = self._packer.pack(message, now_ms, sys_flag)
        else:
            outgoing = self._packer.pack_batch(message, now_ms)
        if queue is not None and queue.topic != outgoing.topic:
            raise ConfigError(f"a message of topic {outgoing.topic!r} cannot be sent to queue {queue}")
        retries = self.options.retries if queue is None and choose is None else 0
        delivery = SendAttempts(
            outgoing,
            deadline,
            retries,
            queue,
            choose,
            until=deadline,
            retry_not_stored_safely=self.options.retry_not_stored_safely,
        )
        if retries and self.options.attempt_seconds < math.inf:
            delivery.attempt_seconds = self.options.attempt_seconds
            delivery.begin(time.monotonic())
        return delivery

    def target(self, delivery: SendAttempts) -> Target | None:
        """Where the next attempt goes, if that is known already; None sends it the long way."""
        topic = delivery.outgoing.topic
        route = self._routes.known(topic)
        if route is None or not route.write_queues:
            return None
        way = self._ways.get(topic)
        if way is None or way.route is not route:
            way = self._ways[topic] = self._way(route)
        queue = delivery.next_queue(route.write_queues, way.turn)
        return way.targets.get(queue)

    def _way(self, route: TopicRoute) -> SendPath:
        masters = ((queue, self._routes.master(queue.broker_name)) for queue in route.write_queues)
        targets = {queue: self._target(queue, address) for queue, address in masters if address is not None}
        return SendPath(route, self._turn(route.topic), targets)

    def _turn(self, topic: str) -> RoundRobin:
        turn = self._turns.get(topic)
        if turn is not None:
            return turn
        new = RoundRobin(random.getrandbits(16)) if self.tolerance is None else self.tolerance.turn()
        return self._turns.setdefault(topic, new)

    def _target(self, queue: MessageQueue, address: str) -> Target:
        options = self.options
        head = SendHead(
            self._group, queue, options.create_topic, options.default_queue_nums, self.connections.credentials
        )
        return Target(queue, address, head)

    # -- sending, in the loop's thread

    def send(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send; ``future`` hears how it ended, retries included."""
        target = self.target(delivery)
        self.enter(delivery)
        connection = self.connections.ready(target.address) if target is not None else None
        if target is None or connection is None:
            self.go_long_way(delivery, None, future)
            return
        opaque = connection.expect(self._attempt_of(self, delivery, target, connection, future), delivery.until)
        connection.write(delivery.outgoing.frame(target.head, opaque))

    def go_long_way(self, delivery: SendAttempts, failure: RocketMQError | None, future: SendFuture) -> None:
        """Start :meth:`deliver`; ``future`` hears how it ended."""
        task = asyncio.ensure_future(self.deliver(delivery, failure))
        self._tasks.add(task)

        def done(task: asyncio.Task[SendResult]) -> None:
            self._tasks.discard(task)
            _settle(future, _end_of(task))

        task.add_done_callback(done)

    def leave_if_told(self, connection: Connection, answer: Reply | NetworkError) -> None:
        """A broker that shuts down asks for a new connection, to itself or to whom takes its place."""
        if isinstance(answer, Reply) and answer.code == ResponseCode.GO_AWAY:
            self.connections.retire(connection)

    async def deliver(self, delivery: SendAttempts, failure: RocketMQError | None = None) -> SendResult:
        """The long way: attempts until one succeeds, none is left or the time is over.

        :param failure: how an attempt of the short way ended.
        """
        self.enter(delivery)
        try:
            while True:
                if failure is not None:
                    delivery.failed(failure, time.monotonic())
                    await self._refresh_after(failure, delivery)
                queue = await self._queue(delivery)
                try:
                    return await self._attempt(delivery, *await self._reach(queue, delivery))
                except RocketMQError as e:
                    failure = e
        except RocketMQError:
            if delivery.stored is None:
                raise
            return delivery.stored
        finally:
            self.leave(delivery)

    async def deliver_oneway(self, delivery: SendAttempts) -> None:
        """One attempt, of which only the writing is awaited."""
        target, connection = await self._reach(await self._queue(delivery), delivery)
        connection.write(delivery.outgoing.frame(target.head, connection.number(), oneway=True))

    async def _attempt(self, delivery: SendAttempts, target: Target, connection: Connection) -> SendResult:
        future: asyncio.Future[Reply] = self._loop.create_future()
        began = time.monotonic()
        opaque = connection.expect(answer_callback(future), delivery.until)
        connection.write(delivery.outgoing.frame(target.head, opaque))
        answer: Reply | NetworkError
        try:
            answer = await future
        except NetworkError as e:
            answer = e
        outcome = outcome_of(delivery, target, answer)
        self.ended(target, began, outcome)
        if isinstance(outcome, SendResult):
            return outcome
        self.leave_if_told(connection, answer)
        raise outcome

    def ended(self, target: Target, began: float, outcome: SendResult | RocketMQError) -> None:
        """An attempt that began at ``began`` (``time.monotonic``) ended; remembered where latency is looked at."""
        if self.tolerance is not None:
            error = outcome if isinstance(outcome, RocketMQError) else None
            self.tolerance.ended(target.queue.broker_name, began, error)

    # -- what the long way needs

    async def _queue(self, delivery: SendAttempts) -> MessageQueue:
        """The queue of the next attempt; asks for the route as needed."""
        topic = delivery.outgoing.topic
        queues = await self.write_queues(topic, delivery.remaining(time.monotonic()))
        return delivery.next_queue(queues, self._turn(topic))

    async def _reach(self, queue: MessageQueue, delivery: SendAttempts) -> tuple[Target, Connection]:
        """A connection to the broker of ``queue``; a failure counts as an attempt at that broker."""
        address = self._routes.master(queue.broker_name)
        began = time.monotonic()
        try:
            if address is None:
                raise _no_master(queue)
            connection = await self.connections.get(address, delivery.remaining(began))
        except (NoRouteError, NetworkError) as e:
            delivery.tried += (queue.broker_name,)
            if self.tolerance is not None:
                self.tolerance.ended(queue.broker_name, began, e)
            raise
        return self._target(queue, address), connection

    async def write_queues(self, topic: str, timeout: float) -> list[MessageQueue]:
        """The queues of a topic that can be written, those it will get if it does not exist yet.

        :raises NoRouteError: there are none.
        :raises RequestTimeout: the name servers do not answer in time.
        """
        route = self._routes.known(topic) or await self._route(topic, timeout)
        if not route.write_queues:
            raise NoRouteError(
                f"topic {topic!r} has no queue that can be written: its permission forbids it, or no broker that holds "
                "it has a master"
            )
        return route.write_queues

    async def broker(self, topic: str, broker_name: str, timeout: float) -> Connection:
        """A connection to the master of a broker that has a topic.

        :raises NoRouteError: nobody knows it.
        :raises NetworkError: it, or the name servers, cannot be reached in time.
        """
        deadline = time.monotonic() + timeout
        if self._routes.known(topic) is None:
            await self._route(topic, timeout)
        address = self._routes.master(broker_name)
        if address is None:
            raise NoRouteError(f"broker {broker_name} has no master known to the name servers")
        return await self.connections.get(address, max(0.0, deadline - time.monotonic()))

    async def _route(self, topic: str, timeout: float) -> TopicRoute:
        self._turn(topic)  # from now on one of our topics
        options = self.options
        try:
            async with asyncio.timeout(timeout):
                return await self._routes.for_sending(topic, options.default_queue_nums, options.create_topic)
        except TimeoutError as e:
            raise RequestTimeout(
                f"no route for topic {topic!r} within {timeout:g} s from name servers {self._routes.name_servers}"
            ) from e

    async def _refresh_after(self, failure: RocketMQError, delivery: SendAttempts) -> None:
        """A broker that fails may have moved: look.

        The next attempt waits for that only if it has no other broker to go to, and then for half of what time is left:
        the name server may be as lost as the broker.
        """
        if not failure.refresh_route:
            return
        topic = delivery.outgoing.topic
        refresh = self._refreshing.get(topic)
        if refresh is None:
            refresh = self._refreshing[topic] = asyncio.ensure_future(self._refresh(topic))
            refresh.add_done_callback(lambda _: self._refreshing.pop(topic, None))
        if not self._has_another(delivery):
            await asyncio.wait((refresh,), timeout=delivery.remaining(time.monotonic()) / 2)

    async def _refresh(self, topic: str) -> None:
        try:
            await self._routes.refresh(topic)
        except (NoRouteError, NetworkError, ClosedError) as e:
            _log.debug("sending again over the route of %s as known: %s", topic, e)

    def _has_another(self, delivery: SendAttempts) -> bool:
        """Whether the known route has a broker that this message was not sent to yet."""
        if delivery.queue is not None:
            return False
        route = self._routes.known(delivery.outgoing.topic)
        return route is not None and any(queue.broker_name not in delivery.tried for queue in route.write_queues)

    # -- the end

    def enter(self, delivery: SendAttempts) -> None:
        """A send begins; :meth:`close` waits for it."""
        self._under_way.add(delivery)

    def leave(self, delivery: SendAttempts) -> None:
        """A send has ended. May be called more than once."""
        self._under_way.discard(delivery)
        if self._idle is not None:
            self._loop.call_soon_threadsafe(self._check_idle)

    async def close(self) -> None:
        """Take no more messages; wait until those under way have ended, which their timeouts bound."""
        if self._idle is None:
            self._idle = asyncio.Event()
        self._check_idle()
        await self._idle.wait()
        for refresh in self._refreshing.values():
            refresh.cancel()
        if self.tolerance is not None:
            self.tolerance.close()

    def _check_idle(self) -> None:
        if self._idle is not None and not self._under_way:
            self._idle.set()


class _Attempt(msgspec.Struct, gc=False, eq=False):
    """An attempt of the short way, waiting for its answer. A struct, since there is one for every message."""

    sender: Sender
    delivery: SendAttempts
    target: Target
    connection: Connection
    future: SendFuture

    def __call__(self, answer: Reply | NetworkError) -> None:
        """The answer has come."""
        self.finish(outcome_of(self.delivery, self.target, answer), answer)

    def finish(self, outcome: SendResult | RocketMQError, answer: Reply | NetworkError) -> None:
        """Settle the future, or go on with another attempt."""
        if isinstance(outcome, SendResult):
            self.sender.leave(self.delivery)
            _settle(self.future, outcome)
        else:
            self.sender.leave_if_told(self.connection, answer)
            self.sender.go_long_way(self.delivery, outcome, self.future)


class _TimedAttempt(_Attempt, gc=False, eq=False):
    """The same, of a producer that looks at the latency of brokers."""

    began: float = msgspec.field(default_factory=time.monotonic)

    def __call__(self, answer: Reply | NetworkError) -> None:
        """The answer has come."""
        outcome = outcome_of(self.delivery, self.target, answer)
        self.sender.ended(self.target, self.began, outcome)
        self.finish(outcome, answer)


def _settle(future: SendFuture, outcome: SendResult | Exception) -> None:
    if future.done():
        return  # nobody waits for it any more
    if isinstance(outcome, SendResult):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)


def outcome_of(delivery: SendAttempts, target: Target, answer: Reply | NetworkError) -> SendResult | RocketMQError:
    """What the end of an attempt means; one that failed is noted in ``delivery``."""
    failure: RocketMQError
    if isinstance(answer, Reply):
        try:
            result = delivery.outgoing.result(target.queue, answer, target.address)
        except RocketMQError as e:
            failure = e
        else:
            doubt = delivery.not_stored_safely(result, target.address) if delivery.retry_not_stored_safely else None
            if doubt is None:
                return result
            failure = doubt
    else:
        failure = answer
    broker = target.queue.broker_name
    delivery.tried += (broker,)
    if isinstance(failure, RequestTimeout):
        return RequestTimeout(
            f"broker {broker} at {target.address} did not answer the send to {target.queue} in time; the message may "
            "have been stored"
        )
    return failure


def _end_of(task: asyncio.Task[SendResult]) -> SendResult | Exception:
    if task.cancelled():
        return ClosedError("the message was not sent: its producer was stopped")
    failure = task.exception()
    return failure if isinstance(failure, Exception) else task.result()


def _no_master(queue: MessageQueue) -> NoRouteError:
    return NoRouteError(f"broker {queue.broker_name} of queue {queue} has no master known to the name servers")
