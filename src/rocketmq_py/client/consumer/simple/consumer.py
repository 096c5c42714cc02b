"""The asyncio simple consumer: the application receives messages and acks each of them within its invisible time.

It uses POP, so members own no queues: a broker delivers each message to the first member that requests it.
``simple.blocking`` has the class for programs without an event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import time, time_ns
from typing import Any, Self, Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import running_info
from rocketmq_py.client.consumer.calls.pop_calls import PopAnswer, PopCalls
from rocketmq_py.client.consumer.consumer_group import ConsumerState
from rocketmq_py.client.consumer.filters import check_brokers
from rocketmq_py.client.consumer.group_member import GroupMember, split
from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.client.consumer.simple.options import LONGEST_INVISIBLE, SimpleOptions, check_invisible
from rocketmq_py.client.consumer.simple.settings import SimpleSettings
from rocketmq_py.client.consumer.simple.sources import Source, Sources
from rocketmq_py.client.hooks.hooks import ReceiveHook, report_received
from rocketmq_py.core.consumer.pulls_ahead import most_in_flight
from rocketmq_py.core.pop.receipts import GIVE_BACK, BrokerClock, PoppedMessage, init_mode, pop_numbers
from rocketmq_py.errors import BadHeader, ClosedError, ConfigError, InvalidReceipt, RocketMQError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.properties import Property
from rocketmq_py.protocol.bodies.client import ConsumerData
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.protocol.pop_handle import ExtraInfo

_log = logging.getLogger(__name__)

MOST_TO_RECEIVE = 1024


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """State of the requests for one topic to one broker.

    :ivar has_messages: True if the broker may have messages; False after it reported none.
    :ivar trouble: why the last request failed; None if it succeeded.
    :ivar since_asked: seconds since the last request to the broker.
    """

    topic: str
    broker_name: str
    has_messages: bool
    trouble: str | None
    since_asked: float


@dataclass(frozen=True, slots=True)
class SimpleHealth(Health):
    """A snapshot of the health of a simple consumer.

    :ivar sources: one entry per subscribed topic and broker.
    """

    sources: list[SourceHealth]

    @property
    def ok(self) -> bool:
        """True if the consumer runs, all topics exist and the last request to every broker succeeded."""
        failing = any(source.trouble for source in self.sources)
        return self.state == ConsumerState.RUNNING.value and not failing and not self.problems


class SimpleConsumer(GroupMember):
    """A member of a consumer group that receives messages and acks each of them.

    A received message is invisible to all members for its invisible time. If it is not acked within that time, it is
    delivered again, to any member, with ``reconsume_times`` increased by one. :meth:`extend` changes that time. No
    member owns queues: a slow member delays no other one, and there may be more members than queues. Delivery is at
    least once, in no order unless ``orderly`` is set. The number of redeliveries is not limited: the application must
    handle messages that fail repeatedly.

    Iterating (``async for message in consumer``) receives message by message and ends when the consumer is closed; each
    message must still be acked. As a context manager it starts when the block is entered.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param instance: a client to share with other producers and consumers; by default a new one, made from the settings
        below.
    :param hooks: called with the messages that are received, for example to make spans.
    :param instance_name: the part of the client id after ``ip@``; unique by default.
    :param unit_name: appended to the client id.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests with these, for servers with access control.
    :param timeout: seconds to wait for answers of name servers, and of brokers to heartbeats.
    :param settings: further options: see :class:`SimpleOptions`.
    :raises ConfigError: an illegal argument.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        instance: ClientInstance | None = None,
        hooks: Sequence[ReceiveHook] = (),
        **settings: Unpack[SimpleSettings],
    ) -> None:
        client_settings, options = split(settings)
        self.hooks = tuple(hooks)
        self._options = SimpleOptions(**options)
        self._most_pops = 1 if self._options.orderly else most_in_flight(self._options.pops_in_flight)
        super().__init__(group, self._options.shared(), instance, namesrv, client_settings)
        self._calls = PopCalls(
            self._instance, self.group, self._group.options.body_rules, self._group.skipped,
            self._group.single_pulls, self._options.filter_hooks, self._options.namespace,
        )  # fmt: skip
        self._sources = Sources(
            self._group, self._calls, poll=self._options.poll_time, order=self._options.orderly
        )  # fmt: skip
        self._clocks: dict[str, BrokerClock] = {}
        self._spare: list[tuple[MessageExt, float]] = []  # messages of cancelled calls, and when they become visible
        self._background: set[asyncio.Task[Any]] = set()

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic, or change its filter. May be called before and after :meth:`start`.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :raises ConfigError: an illegal topic name or expression.
        :raises ClosedError: the consumer is closed.
        """
        if self._is_ending:
            raise self._closed_error()
        self._group.subscribe(self._group.named_topic(check_topic(topic)), tags, sql)
        self._sources.wake()

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic. Messages of it that were already received can still be acked."""
        self._group.subscriptions.pop(self._group.named_topic(topic), None)

    # -- life

    async def start(self) -> None:
        """Join the group.

        :raises ConfigError: the client has a consumer of that group already, or a broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: the consumer was closed before.
        """
        await self._begin(self.close)

    async def _join(self) -> None:
        self._instance.register(self)
        await self._learn_routes(self.topics())
        await check_brokers(self._instance, self.group, list(self._group.subscriptions.values()))
        await self._instance.start()
        await self._group.announce()
        self._group.started_at = time()
        self._group.state = ConsumerState.RUNNING
        await self._sources.refresh()

    async def close(self) -> None:
        """Leave the group. Messages that are not acked are delivered again after their invisible time.

        May be called more than once.
        """
        await self._end(self._take_apart)

    async def _take_apart(self) -> None:
        await self._sources.close()
        spare, self._spare = self._spare, []
        await self._calls.give_back([PoppedMessage(message, _receipt_of(message)) for message, _ in spare], GIVE_BACK)
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._instance.unregister(self)

    # -- messages

    async def receive(
        self, max_messages: int = 32, invisible_duration: float | None = None, timeout: float | None = 5.0
    ) -> list[MessageExt]:
        """Return the next messages, from topics and brokers in turn.

        :param max_messages: maximum number of messages, 1 to 1024.
        :param invisible_duration: seconds to ack or :meth:`extend` the messages, at least 1; None: the consumer's
            ``invisible_duration``.
        :param timeout: seconds to wait for a message; None: without limit, 0: not at all.
        :returns: the messages; an empty list if none came in time.
        :raises ConfigError: an argument is out of range, or nothing is subscribed.
        :raises NoRouteError: no message came in time, and none of the topics exists.
        :raises NetworkError: no message came in time, and no broker can be reached.
        :raises BrokerError: a broker refuses the request for good, or no message came in time and all brokers refuse.
        :raises ClosedError: the consumer is not started, or closed.
        """
        if not 1 <= max_messages <= MOST_TO_RECEIVE:
            raise ConfigError(f"max_messages={max_messages!r} is out of range: 1 to {MOST_TO_RECEIVE} is allowed")
        if timeout is not None and timeout < 0:
            raise ConfigError(f"timeout={timeout!r} must not be negative")
        invisible = check_invisible(
            self._options.invisible_duration if invisible_duration is None else invisible_duration
        )
        deadline = None if timeout is None else self._group.now() + timeout
        began_ns = time_ns()
        while True:
            self._check_running()
            if not self._group.subscriptions:
                raise ConfigError(f"the consumer of group {self.group} subscribes to no topic: call subscribe(topic)")
            await self._sources.refresh()
            messages = await self._collect(max_messages, invisible)
            if messages:
                report_received(self.hooks, self.group, messages, began_ns)
                return messages
            left = None if deadline is None else deadline - self._group.now()
            if left is not None and left <= 0:
                self._check_sources()
                return []
            await self._sources.wait(left)

    async def _collect(self, most: int, invisible: float) -> list[MessageExt]:
        """Pop the sources in turn until there are ``most`` messages or all sources are empty.

        :param invisible: the invisible time of the messages in seconds.
        """
        now = self._group.now()
        found = [message for message, visible_at in self._spare if visible_at > now][:most]
        self._spare = [one for one in self._spare if one[0] not in found and one[1] > now]
        visible_at = now + invisible
        try:
            for source in self._sources.ready():
                at_once, is_full = 1, True
                while is_full and len(found) < most:
                    numbers = pop_numbers(most - len(found), at_once)
                    is_full = await self._pop_together(source, numbers, invisible, found)
                    at_once = min(at_once * 2, self._most_pops)
        except BaseException:  # the call is cancelled or fails: the next call returns these messages
            self._spare += [(message, visible_at) for message in found]
            raise
        return found

    async def _pop_together(
        self, source: Source, numbers: Sequence[int], invisible: float, found: list[MessageExt]
    ) -> bool:
        """Pop as often as there are ``numbers`` of messages to ask for, at the same time.

        :param found: gets the messages in the order of the requests, also if one of these fails or is cancelled.
        :returns: True if each pop has returned as many messages as asked for.
        """
        if len(numbers) == 1:
            messages = await self._pop(source, numbers[0], invisible)
            found += messages
            return len(messages) == numbers[0]
        parts: list[list[MessageExt]] = [[] for _ in numbers]

        async def pop(number: int, part: list[MessageExt]) -> None:
            part += await self._pop(source, number, invisible)

        try:
            failures = await asyncio.gather(*map(pop, numbers, parts), return_exceptions=True)
        finally:
            for part in parts:
                found += part
        for failure in failures:
            if failure is not None:
                raise failure
        return [len(part) for part in parts] == list(numbers)

    async def _pop(self, source: Source, most: int, invisible: float) -> list[MessageExt]:
        now = source.asked_at = self._group.now()
        call = asyncio.ensure_future(self._ask(source, most, invisible))
        try:
            answer = await asyncio.shield(call)
        except asyncio.CancelledError:
            self._keep_invisible(call, now + invisible)
            raise
        except RocketMQError as e:
            source.failed(e, self._group.now())
            if e.refresh_route:
                await self._instance.routes.refresh_all({source.queue.topic})
            elif not e.retryable:
                raise
            return []
        popped = answer.popped if answer is not None else []
        source.found(len(popped) if answer is None else len(popped) + len(answer.unwanted))
        return [one.message for one in popped]

    async def _ask(self, source: Source, most: int, invisible: float) -> PopAnswer | None:
        queue = source.queue
        answer = await self._calls.pop(
            queue, self._group.subscriptions[queue.topic], most=most, invisible=invisible, poll=0.0,
            start=init_mode(self._options.consume_from), order=source.attempts,
        )  # fmt: skip
        if answer is not None:
            self._clocks.setdefault(queue.broker_name, BrokerClock()).observe(answer.pop_time_ms, self._group.now())
            if answer.unwanted:  # the broker compares hashes of tags only: these have another tag
                self._in_background(self._calls.ack(answer.unwanted))
        return answer

    def _keep_invisible(self, call: asyncio.Task[PopAnswer | None], visible_at: float) -> None:
        """Save the messages of a pop whose ``receive`` was cancelled, so that the next ``receive`` returns them.

        :param visible_at: when they become visible again: seconds of the group's monotonic clock.
        """

        def over(done: asyncio.Task[PopAnswer | None]) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            answer = done.result()
            if answer is None:
                return
            if self._is_ending:
                self._in_background(self._calls.give_back(answer.popped, GIVE_BACK))
            else:
                self._spare += [(one.message, visible_at) for one in answer.popped]
                self._sources.wake()

        call.add_done_callback(over)

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _check_sources(self) -> None:
        """Raise the error of the first source if all sources fail, or why topics have no route if there are none."""
        sources = self._sources.all
        if not sources and self._sources.missing is not None:
            raise self._sources.missing.with_traceback(None)  # the same error may be raised many times
        if sources and all(source.error is not None for source in sources):
            assert sources[0].error is not None
            raise sources[0].error.with_traceback(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        message = await self.next()
        if message is None:
            raise StopAsyncIteration
        return message

    async def next(self) -> MessageExt | None:
        """Wait for the next message, without a time limit; returns None when the consumer is closed."""
        while True:
            try:
                messages = await self.receive(1, timeout=None)
            except ClosedError:
                if self._is_ending:
                    return None
                raise
            if messages:
                return messages[0]

    async def ack(self, messages: MessageExt | Iterable[MessageExt]) -> None:
        """Ack messages, so that they are not delivered again; sends one request per broker.

        :raises InvalidReceipt: the invisible time of some messages is over, and they are delivered again. ``messages``
            of the error lists them; the others are acked.
        :raises NetworkError: a broker cannot be reached; messages of other brokers are acked.
        :raises BrokerError: a broker refuses the acks.
        :raises ConfigError: a message was not received by a simple consumer.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        wanted = [messages] if isinstance(messages, MessageExt) else list(messages)
        popped = [PoppedMessage(message, _receipt_of(message)) for message in wanted]
        late = [one for one in popped if self._overdue(one) > 0]
        failures = await self._calls.ack([one for one in popped if one not in late])
        if late:
            raise self._invalid(late)
        for part, error in failures:
            if isinstance(error, InvalidReceipt):
                error.messages = [one.message for one in part]
            raise error

    async def extend(self, message: MessageExt, duration: float) -> str:
        """Make a received message invisible for ``duration`` seconds from now; 0 makes it visible at once.

        :returns: the new receipt handle; it is also set as the message's property ``POP_CK``.
        :raises InvalidReceipt: the invisible time is over, and the message is delivered again.
        :raises NetworkError: the broker cannot be reached.
        :raises BrokerError: the broker refuses the request.
        :raises ConfigError: the duration is out of range, or the message was not received by a simple consumer.
        :raises ClosedError: the consumer is not started, or closed.
        """
        self._check_running()
        if not 0 <= duration <= LONGEST_INVISIBLE:
            raise ConfigError(f"duration={duration!r} is out of range: 0 to {LONGEST_INVISIBLE} seconds is allowed")
        one = PoppedMessage(message, _receipt_of(message))
        if self._overdue(one) > 0:
            raise self._invalid([one])
        try:
            receipt = (await self._calls.extend(one, duration)).encode()
        except InvalidReceipt as e:
            e.messages = [message]
            raise
        message.properties[Property.POP_CK] = receipt
        return receipt

    def _overdue(self, one: PoppedMessage) -> float:
        clock = self._clocks.get(one.receipt.broker_name)
        overdue = None if clock is None else clock.overdue(one.receipt, self._group.now())
        return 0.0 if overdue is None else overdue

    def _invalid(self, late: Sequence[PoppedMessage]) -> InvalidReceipt:
        first = late[0]
        error = InvalidReceipt(
            ResponseCode.NO_MESSAGE,
            f"the invisible time of {len(late)} messages is over, of {first.message!r} {self._overdue(first):.1f} s "
            "ago: they are delivered again. Ask for a longer invisible_duration, or extend() in time",
            first.receipt.broker_name,
        )
        error.messages = [one.message for one in late]
        return error

    # -- state

    def health(self) -> SimpleHealth:
        """The current state of the consumer, and of its topics at each broker."""
        now = self._group.now()
        base = running_info.health(self._group)
        sources = [
            SourceHealth(
                self._group.shown_topic(source.queue.topic), source.queue.broker_name, source.is_ready,
                None if source.error is None else str(source.error), now - source.asked_at,
            )
            for source in self._sources.all
        ]  # fmt: skip
        values = {name: getattr(base, name) for name in Health.__dataclass_fields__}
        return SimpleHealth(**values, sources=sources)

    async def lag(self) -> dict[MessageQueue, int]:
        """Ask the brokers how many messages of each queue the group has not received yet.

        Messages that are received but not acked are not counted.

        :raises NetworkError: a broker cannot be reached.
        """
        self._check_running()
        await self._sources.refresh()
        topics = [await self._instance.routes.get(topic) for topic in self.topics()]
        return await running_info.lag_of(self._group, [queue for route in topics for queue in route.read_queues])

    def __repr__(self) -> str:
        return f"SimpleConsumer(group={self.group!r}, {self._group.state.value}, topics={sorted(self.topics())})"

    # -- a member of the client instance

    def heartbeat(self) -> ConsumerData:
        """The entry of this consumer in heartbeats to brokers."""
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_POP",
            consume_from_where=self._options.consume_from.value,
            subscription_data_set=list(self._group.subscriptions.values()),
        )

    def topics(self) -> set[str]:
        """The subscribed topics."""
        return set(self._group.subscriptions)

    async def on_ids_changed(self) -> None:
        """Do nothing: members of a group that uses POP share no queues."""


def _receipt_of(message: MessageExt) -> ExtraInfo:
    text = message.properties.get(Property.POP_CK)
    if text is None:
        raise ConfigError(f"{message!r} has no receipt: only messages received by a simple consumer can be acked")
    try:
        return ExtraInfo.parse(text)
    except BadHeader as e:
        raise ConfigError(f"the receipt of {message!r} is illegal: {e}") from e
