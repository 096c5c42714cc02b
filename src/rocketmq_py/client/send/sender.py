"""Sends the messages of one producer to brokers: a fast path for most sends, and retries for the others.

The fast path needs a cached route and an open connection, and creates no task. A send without one of them waits at a
gate with all others that need the same (``gates``). A send that fails continues in a coroutine that refreshes the
route, backs off and tries other brokers; the rules are in ``core.producer.send_attempts``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from rocketmq_py.accelerator import installed
from rocketmq_py.client.client_instance import ClientInstance, local_ip
from rocketmq_py.client.send.batcher import BatchedSend, Batcher
from rocketmq_py.client.send.faults import closed_error, no_master, other_loop
from rocketmq_py.client.send.flush import Flush
from rocketmq_py.client.send.futures import SendFuture, resolve
from rocketmq_py.client.send.gates import Gates, WaitingSend
from rocketmq_py.client.send.joining import Joining
from rocketmq_py.client.send.latency_fault import LatencyFaultDetector
from rocketmq_py.client.send.namespacing import in_namespace
from rocketmq_py.client.send.options import Options
from rocketmq_py.client.send.preparing import Admitted, BatchPreparation, Prepare, PrepareBatch, check_topic
from rocketmq_py.client.send.recovery import Recovery
from rocketmq_py.client.send.targets import SendPath, Target, outcome_of
from rocketmq_py.core.peer import Reply
from rocketmq_py.core.producer.outgoing_message import OutgoingMessage, Packer, SendHead
from rocketmq_py.core.producer.send_attempts import (
    NoMasterError,
    NoTimeLeft,
    QueueChooser,
    RoundRobin,
    SendAttempts,
)
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import (
    ClosedError,
    NetworkError,
    NoRouteError,
    NotLeader,
    RequestTimeout,
    RocketMQError,
    TooManySends,
)
from rocketmq_py.model import Message, MessageQueue, SendResult
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.namespaces import queue_without_namespace, with_namespace
from rocketmq_py.remoting.connection import Connection, answer_callback
from rocketmq_py.remoting.single_flight import SingleFlight, own_copy
from rocketmq_py.wire.ids import UniqueKeys

_log = logging.getLogger(__name__)

_ROUTE_SECONDS = 1.0
"""Age in seconds after which a cached route without writable queues is fetched again."""
_CONNECT_SECONDS = 0.05
"""The longest wait in seconds for connections after a route look-up, before the waiting sends continue."""
_REFRESH_SECONDS = 0.2
"""The least seconds between two refreshes of a topic's route after failed attempts."""


class Sender:
    """Sends messages for one producer group.

    Call in the thread of its event loop, except the plain methods above the line "sending, in the loop's thread".
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
        self._in_progress: set[Admitted] = set()
        self._in_threads: set[SendAttempts] = set()
        self._window = options.window
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._blocked = 0
        self._parked: deque[tuple[Admitted, SendFuture, float]] = deque()
        self.join = self._packer.join
        self.batcher: Batcher | None = None
        self.joining: Joining | None = None
        """Tried first for messages that are sent in the loop's thread to any queue; None if there are no batches."""
        self.prepare: Prepare = self.delivery
        """Checks and encodes a message for sending: for a batch if this producer makes batches."""
        self.prepare_batch: PrepareBatch = self.delivery
        """Checks and encodes messages for sending as one batch."""
        if options.batch.makes_batches:
            self._make_batches(options)
        self._looking_up = Gates(self._look_up, self._send_over_route, self._route_failed, self._late_route)
        self._connecting = Gates(
            self.connections.get, self._send_over_connection, self._connect_failed, self._late_connection
        )
        self._recovering = Gates(self._recover, self._start_again, self._give_up, self._late_recovery)
        self._recovery = Recovery(self._masters, self.connections.get, self._recovering.is_awaited)
        self._refreshing = SingleFlight(self._refresh)
        self._refreshed_at: dict[str, float] = {}
        self._flushes: list[Flush] = []
        self._idle: asyncio.Event | None = None
        self.tolerance: LatencyFaultDetector | None = None
        self._attempt_of: type[_Attempt] = _Attempt
        if options.latency is not None:
            self.tolerance = LatencyFaultDetector(options.latency, instance, lambda: self.topics)
            self._attempt_of = _TimedAttempt

    def _make_batches(self, options: Options) -> None:
        """Let single messages leave in batches."""
        self.batcher = batcher = Batcher(options.batch, self, self._leave_together)
        preparation = BatchPreparation(self, self._packer, options, self._routes, batcher)
        self.prepare, self.prepare_batch = preparation.message, preparation.batch
        if options.namespace is None:
            sends = (self._window, self._in_progress, self._parked)
            self.joining = Joining(self._packer, preparation.lanes, batcher.accumulator, *sends)

    @property
    def topics(self) -> set[str]:
        """The topics that this producer has sent to."""
        return set(self._turns)

    @property
    def is_idle(self) -> bool:
        """True if no send is in progress."""
        return not (self._in_progress or self._in_threads or self._parked)

    def has(self, delivery: SendAttempts) -> bool:
        """Return True if this send is in progress."""
        return delivery in self._in_progress or delivery in self._in_threads

    # -- preparing

    def delivery(
        self,
        message: Message | Iterable[Message],
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        choose: QueueChooser | None = None,
        sys_flag: int = 0,
    ) -> SendAttempts:
        """Check and encode a message, or several as a batch, for sending; its timeout starts now.

        :param queue: send to this queue only, without retries.
        :param timeout: seconds for all attempts, instead of ``send_timeout``.
        :param choose: picks the queue; such a send is not retried at another queue.
        :param sys_flag: bits to set in a single message's sysFlag.
        :raises MessageIllegal: a message is too large, or has no topic or an illegal property.
        :raises ConfigError: ``queue`` belongs to another topic.
        :raises ClosedError: the producer is closed.
        """
        self.connections.check_usable()
        if self._idle is not None:
            raise closed_error()
        options = self.options
        deadline = time.monotonic() + (options.send_timeout if timeout is None else timeout)
        now_ms = time.time_ns() // 1_000_000
        if options.namespace is not None:
            message, queue, choose = in_namespace(options.namespace, message, queue, choose)
        if isinstance(message, Message):
            outgoing = self._packer.pack(message, now_ms, sys_flag)
        else:
            outgoing = self._packer.pack_batch(message, now_ms)
        if queue is not None:
            check_topic(outgoing.topic, queue)
        return self.attempts(outgoing, deadline, queue, choose)

    def attempts(
        self,
        outgoing: OutgoingMessage,
        deadline: float,
        queue: MessageQueue | None,
        choose: QueueChooser | None = None,
    ) -> SendAttempts:
        """Return the attempts to send a request to ``queue``, or to any queue of its topic."""
        options = self.options
        retries = options.retries if queue is None and choose is None else 0
        delivery = SendAttempts(
            outgoing, deadline, retries, queue, choose, until=deadline, size=len(outgoing.body),
            retry_not_stored_safely=options.retry_not_stored_safely, retry_codes=options.retry_codes, waits=retries > 0,
        )  # fmt: skip
        if retries and options.attempt_seconds < math.inf:
            delivery.attempt_seconds = options.attempt_seconds
            delivery.begin(time.monotonic())
        return delivery

    def check_open(self) -> None:
        """Raise an error if no message can be sent any more.

        :raises ClosedError: the producer is closed. :raises ForkedError: it was made in another process.
        """
        self.connections.check_usable()
        if self._idle is not None:
            raise closed_error()

    def target(self, delivery: SendAttempts) -> Target | None:
        """The queue and broker of the next attempt; None if the topic's route or the queue's master is not cached."""
        topic = delivery.outgoing.topic
        path, addresses = self._paths.get(topic), self._routes.broker_addresses()
        if path is None or path.addresses is not addresses:
            route = self._routes.known(topic)
            if route is None or not route.write_queues:
                return None
            path = self._paths[topic] = self._path(route, addresses)
        route = path.route
        queue = delivery.next_queue(route.write_queues, path.turn, route.broker_of)
        return path.targets.get(queue)

    def _path(self, route: TopicRoute, addresses: Mapping[str, Mapping[int, str]]) -> SendPath:
        masters = ((queue, self._routes.master(route.broker_of(queue))) for queue in route.write_queues)
        targets = {queue: self._target(queue, address) for queue, address in masters if address is not None}
        return SendPath(route, addresses, self._turn(route.topic), targets)

    def _turn(self, topic: str) -> RoundRobin:
        turn = self._turns.get(topic)
        if turn is not None:
            return turn
        new = RoundRobin(random.getrandbits(16)) if self.tolerance is None else self.tolerance.turn()
        return self._turns.setdefault(topic, new)

    def _target(self, queue: MessageQueue, address: str) -> Target:
        options, credentials = self.options, self.connections.credentials
        there = queue._replace(broker_name=self._routes.broker_of(queue))
        head = SendHead(self._group, there, options.create_topic, options.default_queue_nums, credentials, installed())
        return Target(queue, queue_without_namespace(options.namespace, there), address, head)

    # -- back pressure

    def occupy_thread(self, delivery: SendAttempts) -> None:
        """Record a send that blocks the calling thread; :meth:`close` waits for it, but the limits do not count it.

        It needs no lock, because changes of a set are atomic.
        """
        self._in_threads.add(delivery)

    def free_thread(self, delivery: SendAttempts) -> None:
        """Record the end of a send that was recorded by :meth:`occupy_thread`."""
        self._in_threads.discard(delivery)
        if self._idle is not None:
            self.loop.call_soon_threadsafe(self._unpark)

    def admit_when_possible(self, delivery: Admitted, check: Callable[[], None]) -> None:
        """Block the calling thread until the limits of sends in progress admit the send, then count it.

        :param check: raises if this thread must not block.
        :raises TooManySends: a limit is reached, and the producer has ``when_full="raise"``.
        :raises ClosedError: the producer was closed during the wait.
        """
        self._lock.acquire()  # ``with`` takes twice as long, and each message comes here
        try:
            if self._window.is_full:
                self._raise_if_configured()
                check()
                self._wait_for_room(delivery)
            self._in_progress.add(delivery)
            self._window.enter_elsewhere(delivery.size)
        finally:
            self._lock.release()

    def _wait_for_room(self, delivery: Admitted) -> None:
        began = time.monotonic()
        self._blocked += 1  # before the window is looked at again: who leaves it looks at this afterwards
        try:
            while self._window.is_full:
                self._room.wait()
        finally:
            self._blocked -= 1
        if self._idle is not None:
            raise closed_error()
        delivery.wait_longer(time.monotonic() - began)

    def _raise_if_configured(self) -> None:
        if self.options.raises_when_full:
            raise TooManySends(
                f"{self._window}; await some before you send more, or raise max_pending_sends or max_pending_bytes"
            )

    def _unpark(self) -> None:
        """Start sends that wait for the limits of sends in progress, in order of arrival, until a limit is reached."""
        while self._parked and not self._window.is_full:
            delivery, future, since = self._parked.popleft()
            if future.done():
                for flush in self._flushes:
                    flush.ended(delivery)
            else:
                delivery.wait_longer(time.monotonic() - since)
                self._in_progress.add(delivery)
                self._window.enter(delivery.size)
                self.begin(delivery, future)
        if self._flushes and self.batcher is not None:
            self.batcher.release()
        self._check_idle()

    # -- sending, in the loop's thread

    def start_send(self, delivery: Admitted) -> asyncio.Future[SendResult]:
        """Do as :meth:`send`, and return the future.

        :raises ClosedError: this is not the event loop of this producer.
        """
        loop = self.loop
        if asyncio.get_running_loop() is not loop:
            raise other_loop(loop)
        future: asyncio.Future[SendResult] = loop.create_future()
        self.send(delivery, future)
        return future

    def send(self, delivery: Admitted, future: SendFuture) -> None:
        """Send as soon as the limits of sends in progress admit it; ``future`` gets the final result or error.

        :raises TooManySends: a limit is reached, and the producer has ``when_full="raise"``.
        """
        if self._parked or not self._window.admit(delivery.size):
            self._raise_if_configured()
            self._parked.append((delivery, future, time.monotonic()))
            return
        self._in_progress.add(delivery)
        self.begin(delivery, future)

    def leave(self, delivery: SendAttempts) -> None:
        """Record the end of a send that the limits admitted, and start waiting ones; a second call does nothing."""
        if delivery in self._in_progress:
            self._in_progress.remove(delivery)
            self._window.leave(delivery.size)
            self._left((delivery,))

    def _leave_together(self, sends: Sequence[BatchedSend]) -> None:
        """Do as :meth:`leave`, for messages of a batch."""
        ended = sends
        if not self._in_progress.issuperset(sends):
            ended = [send for send in sends if send in self._in_progress]
        self._in_progress.difference_update(ended)
        self._window.leave(sum([send.size for send in ended]), len(ended))
        self._left(ended)

    def _left(self, ended: Sequence[Admitted]) -> None:
        """Tell those who wait for the end of sends, or for room."""
        if self._blocked or self._flushes:
            for flush in self._flushes:
                for send in ended:
                    flush.ended(send)
            with self._lock:
                self._room.notify(len(ended))
        if self._parked or self._idle is not None:
            self._unpark()

    def begin(self, send: Admitted, future: SendFuture) -> None:
        """Send a message that the limits admit, alone or in a batch; ``future`` gets the final result or error."""
        if isinstance(send, SendAttempts):
            self.start(send, future)
        elif self.batcher is not None:
            send.future = future
            self.batcher.add(send)

    def start(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send a message that the limits admit; ``future`` gets the final result or error, or what a selector raises.

        If other sends wait for the topic's route, it waits behind them.
        """
        topic = delivery.outgoing.topic
        if self._looking_up.closed and topic in self._looking_up.closed:
            self._looking_up.wait(topic, delivery, future)
        else:
            self._send_over_route(delivery, future)

    def _send_over_route(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send by the cached route; wait behind other sends if these wait for the same connection."""
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
                self._failed(WaitingSend(delivery, future), no_master(delivery.queue))
            else:
                self.retry(delivery, None, future)
        elif self._connecting.closed and target.address in self._connecting.closed:
            self._connecting.wait(target.address, delivery, future)
        else:
            connection = self.connections.ready(target.address)
            if connection is None:
                self._connecting.wait(target.address, delivery, future)
            else:
                attempt = self._attempt_of(self, delivery, target, connection, future)
                opaque = connection.expect(attempt, delivery.until)
                connection.write(delivery.outgoing.frame(target.head, opaque))

    def _send_over_connection(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send a message that has waited for a connection to its broker; retry it if there is none."""
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
        """Retry a send after a network error: at another broker, or when a broker of the topic can be reached again.

        :param failure: the error, which must not be shared with other sends unless it has no traceback.
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
        """Fail a send for which no broker of its topic could be reached again."""
        delivery = send.delivery
        delivery.failures += self._recovery.last_failure(topic)[1]
        self._resolve(send, delivery.final(own_copy(failure)))

    def _resolve(self, send: WaitingSend, failure: RocketMQError) -> None:
        self.leave(send.delivery)
        resolve(send.future, send.delivery.stored or failure)

    def _start_again(self, delivery: SendAttempts, future: SendFuture) -> None:
        """Send a message that has waited until a broker of its topic could be reached again."""
        delivery.begin(time.monotonic())
        self._send_over_route(delivery, future)

    def retry(self, delivery: SendAttempts, failure: RocketMQError | None, future: SendFuture) -> None:
        """Run :meth:`deliver` with these arguments in a task; ``future`` gets its result or error."""
        task = asyncio.ensure_future(self.deliver(delivery, failure))
        self._tasks.add(task)

        def done(task: asyncio.Task[SendResult]) -> None:
            self._tasks.discard(task)
            resolve(future, _end_of(task))

        task.add_done_callback(done)

    def attempt_failed(self, attempt: _Attempt, failure: RocketMQError, answer: Reply | NetworkError) -> None:
        """Retry a send after a failed attempt of the fast path."""
        if isinstance(failure, NetworkError):
            self._failed(WaitingSend(attempt.delivery, attempt.future), failure)
        else:
            self.retire_if_going_away(attempt.connection, answer)
            self.retry(attempt.delivery, failure, attempt.future)

    def retire_if_going_away(self, connection: Connection, answer: Reply | NetworkError) -> None:
        """Retire a connection if ``answer`` is GO_AWAY: later sends make a new connection to that address."""
        if isinstance(answer, Reply) and answer.code == ResponseCode.GO_AWAY:
            self.connections.retire(connection)

    async def deliver(self, delivery: SendAttempts, failure: RocketMQError | None = None) -> SendResult:
        """Send a message that the limits admit, with retries, until an attempt succeeds or no retry is allowed.

        :param failure: the error of an attempt on the fast path; None if there was no attempt.
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
        """Send a one-way request; wait until the connection's write buffer has room again."""
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

    # -- operations that sends wait for

    async def _look_up(self, topic: str, seconds: float) -> None:
        route = await self._route(topic, seconds)
        # Connect before the sends continue, so that they need not wait again at the gate of the connection.
        masters = {self._routes.master(queue.broker_name) for queue in route.write_queues}
        opening = [asyncio.ensure_future(self.connections.get(address)) for address in masters if address]
        if opening:
            await asyncio.wait(opening, timeout=_CONNECT_SECONDS)
        for task in opening:
            task.cancel()  # ends the wait, not the connect
        await asyncio.gather(*opening, return_exceptions=True)

    def _late_route(self, topic: str) -> RocketMQError:
        return RequestTimeout(f"no route for topic {topic!r} in time from name servers {self._routes.name_servers}")

    def _late_connection(self, address: str) -> RocketMQError:
        return self.connections.cannot_connect(address, "no connection in time")

    async def _recover(self, topic: str, seconds: float) -> None:
        await self._recovery.wait(topic, seconds)

    async def _masters(self, topic: str, seconds: float) -> list[str]:
        """Refresh the route of a topic and return the addresses of its masters; cached ones if no name server answers.

        :raises NoMasterError: no broker of the topic has a master now.
        :raises RocketMQError: the route is not cached and cannot be fetched.
        """
        if self._routes.known(topic) is not None:
            await self._refresh_route(topic, seconds)
        queues = await self.write_queues(topic, seconds)
        found = {address for queue in queues if (address := self._routes.master(queue.broker_name)) is not None}
        if not found:
            raise no_master(queues[0])
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

    # -- preparing retries

    async def _prepare_next(self, delivery: SendAttempts, failure: RocketMQError) -> None:
        """Prepare a retry: back off, and refresh the route if ``failure`` suggests that.

        If there is another broker to try, the refresh continues in the background.

        :raises RocketMQError: ``failure``, if no retry is allowed.
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
        """Refresh the route of a topic; after ``timeout`` seconds return and let it continue in the background."""
        now = time.monotonic()
        if now - self._refreshed_at.get(topic, -math.inf) < _REFRESH_SECONDS:
            return
        try:
            await self._refreshing.get(topic, timeout)
        except TimeoutError:
            _log.debug("the route of %s is not refreshed yet; sending again over the known one", topic)

    def _refresh_soon(self, topic: str) -> None:
        """Refresh the route of a topic in the background, unless that was done in the last ``_REFRESH_SECONDS``."""
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
        """Pick the queue of the next attempt; fetch the topic's route if it is not cached."""
        topic = delivery.outgoing.topic
        queues = await self.write_queues(topic, delivery.remaining(time.monotonic()))
        return delivery.next_queue(queues, self._turn(topic), self._routes.broker_of)

    async def _reach(self, queue: MessageQueue, delivery: SendAttempts) -> tuple[Target, Connection]:
        """Get a connection to the master of ``queue``; if that fails, record a failed attempt at this broker."""
        address = self._routes.queue_master(queue)
        began = time.monotonic()
        left = delivery.remaining(began)
        try:
            if address is None:
                raise no_master(queue)
            connection = await self.connections.get(address, left)
        except (NoRouteError, NetworkError) as e:
            self._note_failure(delivery, queue, began, e)
            raise
        return self._target(queue, address), connection

    async def write_queues(self, topic: str, timeout: float) -> list[MessageQueue]:
        """The writable queues of a topic; if the topic does not exist, the queues that its first message will create.

        :raises NoMasterError: no broker of the topic has a master now.
        :raises NoRouteError: the topic has no writable queue.
        :raises RequestTimeout: no name server answers in time.
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
        """Get a connection to the master of a broker of ``topic``, within ``timeout`` seconds.

        :raises NoRouteError: no cached route has a master of this broker.
        :raises NetworkError: the broker or the name servers cannot be reached in time.
        """
        deadline = time.monotonic() + timeout
        if self._routes.known(topic) is None:
            await self._route(topic, timeout)
        address = self._routes.master(broker_name)
        if address is None:
            raise NoRouteError(f"broker {broker_name} has no master known to the name servers")
        return await self.connections.get(address, max(0.0, deadline - time.monotonic()))

    async def _route(self, topic: str, timeout: float) -> TopicRoute:
        self._turn(topic)  # adds it to ``topics``
        options = self.options
        try:
            async with asyncio.timeout(timeout):
                return await self._routes.for_sending(topic, options.default_queue_nums, options.create_topic)
        except TimeoutError as e:
            raise RequestTimeout(
                f"no route for topic {topic!r} within {timeout:.3g} s from name servers {self._routes.name_servers}"
            ) from e

    def _has_another(self, delivery: SendAttempts) -> bool:
        """True if the send may be retried and the cached route has a writable broker that it has not tried."""
        if not delivery.waits:
            return False
        route = self._routes.known(delivery.outgoing.topic)
        return route is not None and not route.write_brokers.issubset(delivery.tried)

    # -- flushing and closing

    def let_batches_leave(self, topic: str) -> None:
        """Send the messages of a topic that wait for a batch, so that a request outside of batches overtakes none."""
        if self.batcher is not None:
            namespace = self.options.namespace
            self.batcher.release(topic if namespace is None else with_namespace(namespace, topic))

    async def flush(self) -> None:
        """Send what waits for a batch now, and wait until all sends that have begun so far have ended."""
        with self._lock:
            flush = Flush(self._in_progress, (delivery for delivery, _, _ in self._parked))
            self._flushes.append(flush)
        try:
            if self.batcher is not None:
                self.batcher.release()
            await flush.wait()
        finally:
            self._flushes.remove(flush)

    async def close(self) -> None:
        """Accept no more messages, and wait until the sends in progress have ended, which their timeouts bound."""
        self.joining = None
        if self._idle is None:
            self._idle = asyncio.Event()
        if self.batcher is not None:
            self.batcher.release()
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
        if self._idle is not None and self.is_idle:
            self._idle.set()


class _Attempt(msgspec.Struct, gc=False, eq=False):
    """Callback for the answer to an attempt of the fast path: a struct, which is cheap, as every message needs one."""

    sender: Sender
    delivery: SendAttempts
    target: Target
    connection: Connection
    future: SendFuture

    def __call__(self, answer: Reply | NetworkError) -> None:
        """Handle the broker's answer or the network error."""
        self.finish(outcome_of(self.delivery, self.target, answer), answer)

    def finish(self, outcome: SendResult | RocketMQError, answer: Reply | NetworkError) -> None:
        """Resolve the future with a result, or retry after an error."""
        if isinstance(outcome, SendResult):
            self.sender.leave(self.delivery)
            if not self.future.done():
                self.future.set_result(outcome)
        else:
            self.sender.attempt_failed(self, outcome, answer)


class _TimedAttempt(_Attempt, gc=False, eq=False):
    """Callback of a producer that avoids slow brokers: also records the latency of the attempt."""

    began: float = msgspec.field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 - as patched in tests

    def __call__(self, answer: Reply | NetworkError) -> None:
        """Handle the broker's answer or the network error."""
        outcome = outcome_of(self.delivery, self.target, answer)
        self.sender.ended(self.target, self.began, outcome)
        self.finish(outcome, answer)


def _end_of(task: asyncio.Task[SendResult]) -> SendResult | Exception:
    if task.cancelled():
        return ClosedError("the message was not sent: its producer was stopped")
    failure = task.exception()
    return failure if isinstance(failure, Exception) else task.result()
