"""How one producer's messages reach brokers: the fast path of almost all sends, and retries for the others.

The fast path needs a known route and an open connection, and no task. A send that lacks one of them waits at a gate
with all others that lack the same (``gates``). A send that fails goes on in a coroutine that refreshes the route, backs
off and tries other brokers; the rules are in ``core.producer.send_attempts``. The asyncio and the blocking producer are
thin layers on this.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from rocketmq_py.accelerator import installed
from rocketmq_py.client.client_instance import ClientInstance, local_ip
from rocketmq_py.client.send.futures import SendFuture, resolve
from rocketmq_py.client.send.gates import Gates, WaitingSend
from rocketmq_py.client.send.latency_fault import LatencyFaultDetector
from rocketmq_py.client.send.recovery import Recovery
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
from rocketmq_py.core.producer.outgoing_message import Packer, SendHead
from rocketmq_py.core.producer.send_attempts import (
    RETRY_CODES,
    NoMasterError,
    NoTimeLeft,
    QueueChooser,
    RoundRobin,
    SendAttempts,
)
from rocketmq_py.core.producer.send_window import SendWindow
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import (
    ClosedError,
    ConfigError,
    NetworkError,
    NoRouteError,
    NotLeader,
    RequestTimeout,
    RocketMQError,
    TooManySends,
)
from rocketmq_py.model import Message, MessageQueue, SendResult
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.namespaces import queue_without_namespace, with_namespace
from rocketmq_py.remoting.connection import Connection, answer_callback
from rocketmq_py.remoting.single_flight import SingleFlight, own_copy
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.ids import UniqueKeys

_log = logging.getLogger(__name__)

MAX_PENDING_SENDS = 10_000
"""backPressureForAsyncSendNum."""
MAX_PENDING_BYTES = 32 * 1024 * 1024

_ROUTE_SECONDS = 1.0
"""A route without a queue to send to is asked for again when it is older than this."""
_CONNECT_SECONDS = 0.05
"""After a look-up, connections are waited for at most this long before sends begin."""
_REFRESH_SECONDS = 0.2
"""Routes are refreshed after failed attempts at most this often."""


class Options(NamedTuple):
    """Options of a producer about sending; see :class:`rocketmq_py.aio.Producer`."""

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
    retry_codes: frozenset[int] = RETRY_CODES
    max_pending_sends: int | None = MAX_PENDING_SENDS
    max_pending_bytes: int | None = MAX_PENDING_BYTES
    raises_when_full: bool = False
    namespace: str | None = None
    unit_mode: bool = False


class Target(NamedTuple):
    """The queue and the broker of an attempt.

    :ivar shown: the queue in results: without the namespace, and with the name of the broker that stores the message,
        also for a logical queue, as in Java.
    """

    queue: MessageQueue
    shown: MessageQueue
    address: str
    head: SendHead

    @property
    def broker(self) -> str:
        """The name of the broker."""
        return self.shown.broker_name


class SendPath(NamedTuple):
    """What sends to one topic use as long as its route is the same."""

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
            unit_mode=options.unit_mode,
            accelerator=installed(),
        )
        self._paths: dict[str, SendPath] = {}
        self._turns: dict[str, RoundRobin] = {}
        self._tasks: set[asyncio.Task[SendResult]] = set()
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._in_progress: set[SendAttempts] = set()
        self._in_threads: set[SendAttempts] = set()
        self._window = SendWindow(options.max_pending_sends, options.max_pending_bytes)
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._blocked = 0
        self._parked: deque[tuple[SendAttempts, SendFuture, float]] = deque()
        self._looking_up = Gates(self._look_up, self._send_over_route, self._route_failed, self._late_route)
        self._connecting = Gates(
            self.connections.get, self._send_over_connection, self._connect_failed, self._late_connection
        )
        self._recovering = Gates(self._recover, self._start_again, self._give_up, self._late_recovery)
        self._recovery = Recovery(self._masters, self.connections.get, self._recovering.is_awaited)
        self._refreshing = SingleFlight(self._refresh)
        self._refreshed_at: dict[str, float] = {}
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
        """A message, or the messages of a batch, made ready to be sent; its timeout starts.

        :param sys_flag: bits of a single message's sysFlag.
        :raises MessageIllegal: no broker would accept it.
        :raises ConfigError: ``queue`` is one of another topic.
        :raises ClosedError: the producer is closed.
        """
        self.connections.check_usable()
        if self._idle is not None:
            raise _closed_error()
        options = self.options
        deadline = time.monotonic() + (options.send_timeout if timeout is None else timeout)
        now_ms = time.time_ns() // 1_000_000
        if options.namespace is not None:
            message, queue, choose = _in_namespace(options.namespace, message, queue, choose)
        if isinstance(message, Message):
            outgoing = self._packer.pack(message, now_ms, sys_flag)
        else:
            outgoing = self._packer.pack_batch(message, now_ms)
        if queue is not None and queue.topic != outgoing.topic:
            raise ConfigError(f"a message of topic {outgoing.topic!r} cannot be sent to queue {queue}")
        retries = options.retries if queue is None and choose is None else 0
        delivery = SendAttempts(
            outgoing, deadline, retries, queue, choose, until=deadline,
            retry_not_stored_safely=options.retry_not_stored_safely, retry_codes=options.retry_codes, waits=retries > 0,
        )  # fmt: skip
        if retries and options.attempt_seconds < math.inf:
            delivery.attempt_seconds = options.attempt_seconds
            delivery.begin(time.monotonic())
        return delivery

    def target(self, delivery: SendAttempts) -> Target | None:
        """The queue and broker of the next attempt, if a known route has them."""
        topic = delivery.outgoing.topic
        route = self._routes.known(topic)
        if route is None or not route.write_queues:
            return None
        path = self._paths.get(topic)
        if path is None or path.route is not route:
            path = self._paths[topic] = self._path(route)
        queue = delivery.next_queue(route.write_queues, path.turn, route.broker_of)
        return path.targets.get(queue)

    def _path(self, route: TopicRoute) -> SendPath:
        masters = ((queue, self._routes.master(route.broker_of(queue))) for queue in route.write_queues)
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
        there = queue._replace(broker_name=self._routes.broker_of(queue))
        head = SendHead(
            self._group, there, options.create_topic, options.default_queue_nums, self.connections.credentials,
            installed(),
        )  # fmt: skip
        return Target(queue, queue_without_namespace(options.namespace, there), address, head)

    # -- back pressure

    def occupy_thread(self, delivery: SendAttempts) -> None:
        """Note a send that occupies the calling thread. It takes no room: threads are few, and each has one send.

        A set changes atomically, so this needs no lock.
        """
        self._in_threads.add(delivery)

    def free_thread(self, delivery: SendAttempts) -> None:
        """A send has ended that occupied the calling thread."""
        self._in_threads.discard(delivery)
        if self._idle is not None:
            self.loop.call_soon_threadsafe(self._unpark)

    def admit_when_possible(self, delivery: SendAttempts, check: Callable[[], None]) -> None:
        """Count a send that begins, once there is room; blocks the calling thread until then.

        :param check: raises if this thread must not block.
        :raises TooManySends: there is no room, and the producer is configured to raise then.
        :raises ClosedError: the producer was closed meanwhile.
        """
        with self._lock:
            if self._window.is_full:
                self._raise_if_configured()
                check()
                self._wait_for_room(delivery)
            self._enter(delivery)

    def _wait_for_room(self, delivery: SendAttempts) -> None:
        began = time.monotonic()
        self._blocked += 1
        try:
            while self._window.is_full:
                self._room.wait()
        finally:
            self._blocked -= 1
        if self._idle is not None:
            raise _closed_error()
        delivery.wait_longer(time.monotonic() - began)

    def _raise_if_configured(self) -> None:
        if self.options.raises_when_full:
            raise TooManySends(
                f"{self._window}; await some before you send more, or raise max_pending_sends or max_pending_bytes"
            )

    def _admit(self, delivery: SendAttempts) -> None:
        with self._lock:
            self._enter(delivery)

    def _enter(self, delivery: SendAttempts) -> None:
        self._in_progress.add(delivery)
        self._window.enter(len(delivery.outgoing.body))

    def leave(self, delivery: SendAttempts) -> None:
        """A send has ended. May be called more than once."""
        with self._lock:
            if delivery not in self._in_progress:
                return
            self._in_progress.remove(delivery)
            self._window.leave(len(delivery.outgoing.body))
            if self._blocked:
                self._room.notify()
        if self._parked or self._idle is not None:
            if threading.get_ident() == self._thread:
                self._unpark()
            else:
                self.loop.call_soon_threadsafe(self._unpark)

    def _unpark(self) -> None:
        """Begin sends that waited for room, in their order."""
        while self._parked and not self._window.is_full:
            delivery, future, since = self._parked.popleft()
            if not future.done():
                delivery.wait_longer(time.monotonic() - since)
                self._admit(delivery)
                self.start(delivery, future)
        self._check_idle()

    # -- sending, in the loop's thread

    def send(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send as soon as there is room; ``future`` gets the result, after retries.

        :raises TooManySends: there is no room, and the producer is configured to raise then.
        """
        if self._parked or self._window.is_full:
            self._raise_if_configured()
            self._parked.append((delivery, future, time.monotonic()))
            return
        self._admit(delivery)
        self.start(delivery, future)

    def start(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send an admitted delivery; ``future`` gets the result, after retries, or what a queue selector raises.

        While others wait for the route, it waits behind them.
        """
        topic = delivery.outgoing.topic
        if self._looking_up.closed and topic in self._looking_up.closed:
            self._looking_up.wait(topic, delivery, future)
        else:
            self._send_over_route(delivery, future)

    def _send_over_route(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send over the known route, behind others that wait for the same connection."""
        try:
            target = self.target(delivery)
        except Exception as e:  # noqa: BLE001 - selectors are code of applications
            self.leave(delivery)
            resolve(future, e)
            return
        if target is None:
            if self._routes.known(delivery.outgoing.topic) is None:
                self._looking_up.wait(delivery.outgoing.topic, delivery, future)
            elif delivery.waits and delivery.queue is not None:
                self._note_failure(delivery, delivery.queue, time.monotonic(), None)
                self._failed(WaitingSend(delivery, future), _no_master(delivery.queue))
            else:
                self.retry(delivery, None, future)
        elif self._connecting.closed and target.address in self._connecting.closed:
            self._connecting.wait(target.address, delivery, future)
        else:
            connection = self.connections.ready(target.address)
            if connection is None:
                self._connecting.wait(target.address, delivery, future)
            else:
                self._write(delivery, target, connection, future)

    def _send_over_connection(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send a delivery that has waited for a connection."""
        target = self.target(delivery)
        connection = self.connections.ready(target.address) if target is not None else None
        if target is None or connection is None:
            self.retry(delivery, None, future)
        else:
            self._write(delivery, target, connection, future)

    def _write(self, delivery: SendAttempts, target: Target, connection: Connection, future: SendFuture) -> None:
        opaque = connection.expect(self._attempt_of(self, delivery, target, connection, future), delivery.until)
        connection.write(delivery.outgoing.frame(target.head, opaque))

    def _failed(self, send: WaitingSend, failure: RocketMQError) -> None:
        """Go on with a send that the network has failed: at another broker, or when one can be reached again.

        :param failure: not shared with other sends, or without a traceback.
        """
        delivery = send.delivery
        elsewhere = self._has_another(delivery)
        try:
            delivery.failed(failure, time.monotonic(), elsewhere=elsewhere)
        except RocketMQError as e:
            self._resolve(send, e)
            return
        if elsewhere:
            self._refresh_soon(delivery.outgoing.topic)
            self._send_over_route(delivery, send.future)
        else:
            self._recovering.wait(delivery.outgoing.topic, delivery, send.future)

    def _give_up(self, topic: str, send: WaitingSend, failure: RocketMQError) -> None:
        """End a send that waited until a broker of its topic could be reached again."""
        delivery = send.delivery
        delivery.failures += self._recovery.last_failure(topic)[1]
        self._resolve(send, delivery.final(own_copy(failure)))

    def _resolve(self, send: WaitingSend, failure: RocketMQError) -> None:
        self.leave(send.delivery)
        resolve(send.future, send.delivery.stored or failure)

    def _start_again(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send a delivery that has waited until a broker could be reached again."""
        delivery.begin(time.monotonic())
        self._send_over_route(delivery, future)

    def retry(self, delivery: SendAttempts, failure: RocketMQError | None, future: SendFuture) -> None:
        """Start :meth:`deliver`; ``future`` gets the result."""
        task = asyncio.ensure_future(self.deliver(delivery, failure))
        self._tasks.add(task)

        def done(task: asyncio.Task[SendResult]) -> None:
            self._tasks.discard(task)
            resolve(future, _end_of(task))

        task.add_done_callback(done)

    def attempt_failed(self, attempt: _Attempt, failure: RocketMQError, answer: Reply | NetworkError) -> None:
        """Go on with a send after an attempt of the fast path."""
        if isinstance(failure, NetworkError):
            self._failed(WaitingSend(attempt.delivery, attempt.future), failure)
        else:
            self.retire_if_going_away(attempt.connection, answer)
            self.retry(attempt.delivery, failure, attempt.future)

    def retire_if_going_away(self, connection: Connection, answer: Reply | NetworkError) -> None:
        """Retire a connection after GO_AWAY: the next one reaches the broker again, or its successor."""
        if isinstance(answer, Reply) and answer.code == ResponseCode.GO_AWAY:
            self.connections.retire(connection)

    async def deliver(self, delivery: SendAttempts, failure: RocketMQError | None = None) -> SendResult:
        """Send an admitted delivery with retries, until an attempt succeeds or none may follow.

        :param failure: the error of a first attempt on the fast path.
        """
        try:
            while True:
                if failure is not None:
                    await self._prepare_next(delivery, failure)
                try:
                    queue = await self._queue(delivery)
                    return await self._attempt(delivery, *await self._reach(queue, delivery))
                except NoTimeLeft as e:
                    raise e if failure is None else delivery.final(failure) from None
                except RocketMQError as e:
                    failure = e
        except RocketMQError:
            if delivery.stored is None:
                raise
            return delivery.stored
        finally:
            self.leave(delivery)

    async def deliver_oneway(self, delivery: SendAttempts) -> None:
        """Send without an answer; returns when the request is handed to a connection that keeps up."""
        target, connection = await self._reach(await self._queue(delivery), delivery)
        connection.write(delivery.outgoing.frame(target.head, connection.number(), oneway=True))
        await connection.drain()

    async def _attempt(self, delivery: SendAttempts, target: Target, connection: Connection) -> SendResult:
        future: asyncio.Future[Reply] = self.loop.create_future()
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
        self.retire_if_going_away(connection, answer)
        raise outcome

    def ended(self, target: Target, began: float, outcome: SendResult | RocketMQError | None) -> None:
        """Record an attempt that began at ``began`` (``time.monotonic``), if the producer avoids slow brokers."""
        if self.tolerance is not None:
            error = outcome if isinstance(outcome, RocketMQError) else None
            self.tolerance.ended(target.broker, began, error)

    # -- what sends wait for

    async def _look_up(self, topic: str, seconds: float) -> None:
        route = await self._route(topic, seconds)
        # Sends that find a connection need not wait for it at another gate. Those of a broker that takes longer do.
        masters = {self._routes.master(queue.broker_name) for queue in route.write_queues}
        opening = [asyncio.ensure_future(self.connections.get(address)) for address in masters if address]
        if opening:
            await asyncio.wait(opening, timeout=_CONNECT_SECONDS)
        for task in opening:
            task.cancel()  # what waits, not the connecting
        await asyncio.gather(*opening, return_exceptions=True)

    def _late_route(self, topic: str) -> RocketMQError:
        return RequestTimeout(f"no route for topic {topic!r} in time from name servers {self._routes.name_servers}")

    def _late_connection(self, address: str) -> RocketMQError:
        return self.connections.cannot_connect(address, "no connection in time")

    async def _recover(self, topic: str, seconds: float) -> None:
        await self._recovery.wait(topic, seconds)

    async def _masters(self, topic: str, seconds: float) -> list[str]:
        """The addresses of a topic's masters, asked for just now if a name server answers.

        :raises NoMasterError: there is none at the moment.
        :raises RocketMQError: the route is unknown and cannot be looked up.
        """
        if self._routes.known(topic) is not None:
            await self._refresh_route(topic, seconds)
        queues = await self.write_queues(topic, seconds)
        found = {address for queue in queues if (address := self._routes.master(queue.broker_name)) is not None}
        if not found:
            raise _no_master(queues[0])
        return list(found)

    def _late_recovery(self, topic: str) -> RocketMQError:
        failure, _ = self._recovery.last_failure(topic)
        return failure or NoTimeLeft(f"no time is left to send to {topic!r}: none of its brokers could be reached")

    def _route_failed(self, _: str, send: WaitingSend, failure: RocketMQError) -> None:
        self._failed(send, own_copy(failure))

    def _connect_failed(self, _: str, send: WaitingSend, failure: RocketMQError) -> None:
        if send.delivery.queue is not None:
            self._note_failure(send.delivery, send.delivery.queue, time.monotonic(), failure)
        self._failed(send, own_copy(failure))

    def _note_failure(
        self, delivery: SendAttempts, queue: MessageQueue, began: float, failure: RocketMQError | None
    ) -> None:
        broker = self._routes.broker_of(queue)
        delivery.tried += (broker,)
        if self.tolerance is not None:
            self.tolerance.ended(broker, began, failure)

    # -- what retries need

    async def _prepare_next(self, delivery: SendAttempts, failure: RocketMQError) -> None:
        """Get ready for another attempt: back off, and refresh the route where that may help.

        If another broker is left to try, the refresh goes on in the background.

        :raises RocketMQError: ``failure``, if no attempt may follow.
        """
        elsewhere = self._has_another(delivery) and not isinstance(failure, NotLeader)
        now = time.monotonic()
        pause = delivery.failed(failure, now, random.random(), elsewhere=elsewhere)
        if failure.refresh_route:
            patience = 0.0 if elsewhere else (delivery.deadline - now) / 2
            await self._refresh_route(delivery.outgoing.topic, patience)
        left = now + pause - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)

    async def _refresh_route(self, topic: str, timeout: float) -> None:
        """Refresh the route of a topic and wait for it; it goes on in the background after ``timeout`` seconds."""
        now = time.monotonic()
        if now - self._refreshed_at.get(topic, -math.inf) < _REFRESH_SECONDS:
            return
        try:
            await self._refreshing.get(topic, timeout)
        except TimeoutError:
            _log.debug("the route of %s is not refreshed yet; sending again over the known one", topic)

    def _refresh_soon(self, topic: str) -> None:
        """Refresh the route of a topic in the background, unless that was done just now."""
        now = time.monotonic()
        if now - self._refreshed_at.get(topic, -math.inf) >= _REFRESH_SECONDS:
            self._refreshed_at[topic] = now
            self._refreshing.begin(topic)

    async def _refresh(self, topic: str) -> None:
        try:
            await self._routes.refresh(topic)
        except (NoRouteError, NetworkError, ClosedError) as e:
            _log.debug("sending again over the known route of %s: %s", topic, e)
        self._refreshed_at[topic] = time.monotonic()

    async def _queue(self, delivery: SendAttempts) -> MessageQueue:
        """The queue of the next attempt; asks for the route as needed."""
        topic = delivery.outgoing.topic
        queues = await self.write_queues(topic, delivery.remaining(time.monotonic()))
        return delivery.next_queue(queues, self._turn(topic), self._routes.broker_of)

    async def _reach(self, queue: MessageQueue, delivery: SendAttempts) -> tuple[Target, Connection]:
        """A connection to the broker of ``queue``; a failure counts as an attempt at that broker."""
        address = self._routes.queue_master(queue)
        began = time.monotonic()
        left = delivery.remaining(began)
        try:
            if address is None:
                raise _no_master(queue)
            connection = await self.connections.get(address, left)
        except (NoRouteError, NetworkError) as e:
            self._note_failure(delivery, queue, began, e)
            raise
        return self._target(queue, address), connection

    async def write_queues(self, topic: str, timeout: float) -> list[MessageQueue]:
        """The writable queues of a topic; for a topic that does not exist yet, those that it will get.

        :raises NoMasterError: none of its brokers has a master at the moment.
        :raises NoRouteError: there are none.
        :raises RequestTimeout: the name servers do not answer in time.
        """
        route: TopicRoute | None = self._routes.known(topic)
        if route is None:
            route = await self._route(topic, timeout)
        elif not route.write_queues:
            route = await self._routes.not_older_than(topic, _ROUTE_SECONDS) or route
        if route.write_queues:
            return route.write_queues
        if route.lacks_master:
            raise NoMasterError(f"topic {topic!r} cannot be sent to at the moment: none of its brokers has a master")
        raise NoRouteError(f"topic {topic!r} has no queue that can be written: its permission forbids it")

    async def broker(self, topic: str, broker_name: str, timeout: float) -> Connection:
        """A connection to the master of a broker that holds a topic.

        :raises NoRouteError: no known route names one.
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
                f"no route for topic {topic!r} within {timeout:.3g} s from name servers {self._routes.name_servers}"
            ) from e

    def _has_another(self, delivery: SendAttempts) -> bool:
        """True if the known route has a broker that was not tried yet."""
        if not delivery.waits:
            return False
        route = self._routes.known(delivery.outgoing.topic)
        return route is not None and not route.write_brokers.issubset(delivery.tried)

    # -- closing

    async def close(self) -> None:
        """Take no more messages and wait until the sends in progress have ended; their timeouts bound that."""
        if self._idle is None:
            self._idle = asyncio.Event()
        self._check_idle()
        await self._idle.wait()
        self._refreshing.cancel()
        self._looking_up.cancel()
        self._connecting.cancel()
        self._recovering.cancel()
        with self._lock:
            self._room.notify_all()
        if self.tolerance is not None:
            self.tolerance.close()

    def _check_idle(self) -> None:
        if self._idle is not None and not (self._in_progress or self._in_threads or self._parked):
            self._idle.set()


class _Attempt(msgspec.Struct, gc=False, eq=False):
    """An attempt of the fast path that waits for its answer. A struct, since there is one for every message."""

    sender: Sender
    delivery: SendAttempts
    target: Target
    connection: Connection
    future: SendFuture

    def __call__(self, answer: Reply | NetworkError) -> None:
        """Take the answer."""
        self.finish(outcome_of(self.delivery, self.target, answer), answer)

    def finish(self, outcome: SendResult | RocketMQError, answer: Reply | NetworkError) -> None:
        """Resolve the future, or retry."""
        if isinstance(outcome, SendResult):
            self.sender.leave(self.delivery)
            resolve(self.future, outcome)
        else:
            self.sender.attempt_failed(self, outcome, answer)


class _TimedAttempt(_Attempt, gc=False, eq=False):
    """The same for a producer that avoids slow brokers."""

    began: float = msgspec.field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 - as patched in tests

    def __call__(self, answer: Reply | NetworkError) -> None:
        """Take the answer."""
        outcome = outcome_of(self.delivery, self.target, answer)
        self.sender.ended(self.target, self.began, outcome)
        self.finish(outcome, answer)


def outcome_of(delivery: SendAttempts, target: Target, answer: Reply | NetworkError) -> SendResult | RocketMQError:
    """The result or error of an attempt; a failed one is noted in ``delivery``."""
    failure: RocketMQError
    if isinstance(answer, Reply):
        try:
            result = delivery.outgoing.result(target.shown, answer, target.address)
        except RocketMQError as e:
            failure = e
        else:
            doubt = delivery.not_stored_safely(result, target.address) if delivery.retry_not_stored_safely else None
            if doubt is None:
                return result
            failure = doubt
    else:
        failure = answer
    broker = target.broker
    delivery.tried += (broker,)
    if isinstance(failure, RequestTimeout):
        return RequestTimeout(
            f"broker {broker} at {target.address} did not answer the send to {target.queue} in time; the message may "
            "have been stored"
        )
    return failure


def _in_namespace(
    namespace: str,
    message: Message | Iterable[Message],
    queue: MessageQueue | None,
    choose: QueueChooser | None,
) -> tuple[Message | Iterable[Message], MessageQueue | None, QueueChooser | None]:
    """What is sent in a namespace: copies of messages that share their properties, and the queue with its prefix."""
    if isinstance(message, Message):
        message = _renamed(namespace, message)
    else:
        message = [_renamed(namespace, each) for each in message]
    if queue is not None:
        queue = queue._replace(topic=with_namespace(namespace, queue.topic))
    return message, queue, None if choose is None else _choose_in_namespace(namespace, choose)


def _renamed(namespace: str, message: Message) -> Message:
    renamed = copy.copy(message)
    renamed.topic = with_namespace(namespace, message.topic)
    return renamed


def _choose_in_namespace(namespace: str, choose: QueueChooser) -> QueueChooser:
    def chosen(queues: Sequence[MessageQueue]) -> MessageQueue:
        queue = choose([queue_without_namespace(namespace, each) for each in queues])
        return queue._replace(topic=with_namespace(namespace, queue.topic))

    return chosen


def _end_of(task: asyncio.Task[SendResult]) -> SendResult | Exception:
    if task.cancelled():
        return ClosedError("the message was not sent: its producer was stopped")
    failure = task.exception()
    return failure if isinstance(failure, Exception) else task.result()


def _no_master(queue: MessageQueue) -> NoRouteError:
    return NoMasterError(f"broker {queue.broker_name} of queue {queue} has no master known to the name servers")


def _closed_error() -> ClosedError:
    return ClosedError("this producer is closed; make a new one")
