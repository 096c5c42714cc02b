"""The asyncio push consumer: its public methods. It passes the messages of subscribed topics to listeners.

``push.runtime`` holds its pull loops, threads and rebalancer; ``push.blocking`` has the class for programs without an
event loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import Any, Self, TypeVar, Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import broker_requests, filters, running_info, stacks
from rocketmq_py.client.consumer.consumer_group import ConsumerState
from rocketmq_py.client.consumer.dispatch.concurrent import Listeners
from rocketmq_py.client.consumer.dispatch.listeners import AnyListener, Listener, make_listener
from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyListener
from rocketmq_py.client.consumer.dispatch.typed_listeners import typed
from rocketmq_py.client.consumer.group_member import GroupMember, split
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.consumer.push.runtime import PushRuntime
from rocketmq_py.client.consumer.push.settings import PushSettings
from rocketmq_py.client.consumer.rebalance.rebalancer import QueuesChanged
from rocketmq_py.client.consumer.send_message_back import DropFailed, FailureHandler, SendMessageBack
from rocketmq_py.client.hooks.filter_hooks import ArrivalTimes
from rocketmq_py.client.hooks.hooks import ConsumeHook, hooked
from rocketmq_py.client.hooks.tracing import ConsumeTrace, Trace, Tracer
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.client import ConsumerData
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.serde import Serde
from rocketmq_py.serde.of_type import serde_of

_log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


class PushConsumer(GroupMember):
    """A member of a consumer group that passes messages to listeners: concurrently, or in order with ``orderly``.

    Delivery is at least once. A listener is ``listener(message)`` or ``listener(messages, context)``: a plain function,
    which runs in one of ``consume_threads`` threads, or ``async def``. Returning None, True or
    ``ConsumeResult.SUCCESS`` means success. If it raises or returns ``ConsumeResult.RECONSUME_LATER`` (or anything
    else), the message is delivered again after 10 s, 30 s, 1 min and so on, up to ``max_reconsume_times`` times, and
    then moved to the group's dead-letter topic.

    With ``orderly=True`` the messages of each queue are delivered one after the other, to one member of the group at a
    time. A message that fails is delivered again after ``suspend_seconds``, before any later message of its queue. A
    listener may return an :class:`~rocketmq_py.OrderlyResult`, and its context is an
    :class:`~rocketmq_py.OrderlyContext`. With ``message_model=MessageModel.BROADCASTING`` every member gets all
    messages, and failed ones are dropped.

    As a context manager it starts when the block is entered if a topic is subscribed by then; otherwise call
    :meth:`start` in the block.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param listener: the listener of topics that are subscribed without one.
    :param queues_changed: called with a topic, all its queues and the queues that this consumer owns, after the latter
        have changed.
    :param hooks: called before and after every call of a listener.
    :param trace: True sends message traces to the brokers' default trace topic, a string to that topic; see
        :mod:`rocketmq_py.client.hooks.tracing`. Off by default.
    :param instance: a client to share with other producers and consumers; by default a new one, made from the settings
        below.
    :param instance_name: the part of the client id after ``ip@``; unique by default, ``DEFAULT`` when broadcasting.
    :param unit_name: appended to the client id.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests with these, for servers with access control.
    :param timeout: seconds to wait for answers of name servers, and of brokers to heartbeats.
    :param settings: further options: see :class:`PushOptions`.
    :raises ConfigError: an illegal argument.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        listener: AnyListener | None = None,
        queues_changed: QueuesChanged | None = None,
        hooks: Sequence[ConsumeHook] = (),
        trace: Trace = False,
        instance: ClientInstance | None = None,
        **settings: Unpack[PushSettings],
    ) -> None:
        client_settings, options = split(settings)
        if any(hook.needs_arrival for hook in hooks):
            options["filter_hooks"] = (ArrivalTimes(), *options.get("filter_hooks", ()))
        self._options = PushOptions(**options)
        super().__init__(group, self._options, instance, namesrv, client_settings)
        self._tracer = Tracer.of(trace, group, "CONSUME")
        self._hooks = tuple(hooks)
        if self._tracer is not None:
            self._hooks = (*self._hooks, ConsumeTrace(self._tracer, self._options.consume_timeout))
        self._default = self._made(listener) if listener is not None else None
        self._by_topic: dict[str, Listener | OrderlyListener] = {}
        self._listeners: Listeners[Any] = Listeners(self._default, self._by_topic)
        self._queues_changed = queues_changed
        self._runtime: PushRuntime | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- subscribe

    def subscribe(
        self, topic: str, tags: str = "*", listener: AnyListener | None = None, *, sql: str | None = None
    ) -> None:
        """Subscribe to a topic, or change its filter or listener. May be called while the consumer runs.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param listener: gets this topic's messages; None: the consumer's ``listener`` gets them.
        :param sql: an SQL92 expression over message properties instead of tags, for example
            ``"region = 'eu' AND amount > 100"``; brokers need ``enablePropertyFilter=true``. A property that is
            compared with a number must be a number of the same kind, or the message does not match; see
            :mod:`rocketmq_py.core.sql92`.
        :raises ConfigError: an illegal topic name or expression, both tags and SQL, or a listener that is not
            callable with a message or with messages and a context.
        """
        made = None if listener is None else self._made(listener)
        name = self._group.named_topic(check_topic(topic))
        self._group.subscribe(name, tags, sql)
        if made is not None:
            self._by_topic[name] = self._by_topic[self._group.shown_topic(name)] = made
        if self._runtime is not None:
            self._check_listeners()
            self._runtime.rebalancer.trigger()

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic and release its queues."""
        self._group.subscriptions.pop(self._group.named_topic(topic), None)
        if self._runtime is not None:
            self._runtime.rebalancer.trigger()

    def on(
        self, topic: str, tags: str = "*", *, sql: str | None = None, type: type[Any] | Serde | None = None
    ) -> Callable[[F], F]:  # fmt: skip
        """Decorate a function to subscribe to a topic with it as the listener; parameters as of :meth:`subscribe`.

        :param type: what bodies are: a type whose values are written in JSON, or a form of
            :mod:`rocketmq_py.serde`. The listener is ``listener(value)`` or ``listener(value, message)`` then. A
            message whose body does not fit goes to the dead letters at once, the reason in property ``DLQ_REASON``.
        """

        def subscribed(function: F) -> F:
            listener = function if type is None else self._typed(function, type)
            self.subscribe(topic, tags, listener, sql=sql)
            return function

        return subscribed

    def _typed(self, listener: Callable[..., Any], kind: Any) -> AnyListener:
        """Return a listener of messages that decodes bodies for ``listener``."""
        group = self._group
        failures: FailureHandler = DropFailed(group) if group.is_broadcasting else SendMessageBack(group)
        return typed(listener, serde_of(kind), failures.reject, lambda: self._loop)

    def _made(self, listener: AnyListener) -> Listener | OrderlyListener:
        if self._hooks and callable(listener):
            listener = hooked(listener, self._hooks, self.group)
        if self._options.orderly:
            return OrderlyListener(listener, self._options.consume_batch_size)
        return make_listener(listener, self._options.consume_batch_size)

    def _check_listeners(self) -> None:
        topics = [topic for topic in self._group.subscriptions if not topic.startswith(self._group.retry_topic)]
        if not topics:
            raise ConfigError(f"consumer group {self.group} subscribes to no topic; call subscribe(topic) first")
        for topic in topics:
            if self._listeners.of(topic) is None:
                raise ConfigError(f"topic {topic} has no listener; pass listener=... or use @consumer.on({topic!r})")

    # -- life

    async def start(self) -> None:
        """Join the group and start to consume; returns after the first rebalance.

        :raises ConfigError: nothing is subscribed, a listener is missing, the client has a consumer of that group
            already, or a broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: the consumer was closed before.
        """
        if self._group.state is ConsumerState.NEW:
            self._check_listeners()
        await self._begin(self.close)

    async def _join(self) -> None:
        self._loop = asyncio.get_running_loop()
        group, instance = self._group, self._instance
        instance.register(self)
        broker_requests.serve(instance)
        if self._tracer is not None:
            self._tracer.start(instance)
        await self._learn_routes(list(group.subscriptions))
        if not group.is_broadcasting:
            group.subscribe(group.retry_topic, "*")
        group.started_at = time()
        self._runtime = PushRuntime(group, self._listeners, self._queues_changed)
        await instance.start()
        await filters.check_brokers(instance, group.name, list(group.subscriptions.values()))
        await group.announce()
        group.state = ConsumerState.RUNNING
        await self._runtime.rebalancer.start()

    async def close(self, timeout: float | None = None) -> None:
        """Stop calling listeners, wait for running ones, store the offsets and leave the group.

        May be called more than once. While it waits, it logs which messages the running listeners have.

        :param timeout: seconds to wait for running listeners; None: the consumer's ``close_timeout``. A message whose
            listener has not ended by then is delivered again.
        """
        if self._group.state is ConsumerState.NEW and self._group.subscriptions:
            _log.warning(
                "the consumer of group %s is closed and was never started: call start() if you subscribe inside its "
                "with block",
                self.group,
            )
        limit = self._options.close_timeout if timeout is None else timeout
        await self._end(lambda: self._take_apart(limit))

    async def _take_apart(self, timeout: float | None) -> None:
        if self._runtime is not None:
            await self._runtime.close(timeout)
            await self._group.offsets.persist_confirmed(self._group.queues)
            await self._runtime.queue_lock.close()
        if self._tracer is not None:
            await self._tracer.close()
        await self._instance.unregister(self)

    async def __aenter__(self) -> Self:
        if self._group.subscriptions:
            await self.start()
        return self

    def suspend(self) -> None:
        """Stop pulling until :meth:`resume`; messages that are already pulled are still consumed."""
        self._group.suspended = True

    def resume(self) -> None:
        """Pull again after :meth:`suspend`."""
        self._group.suspended = False
        if self._runtime is not None:
            self._runtime.fetcher.wake_all()

    def resize(self, consume_threads: int) -> None:
        """Change how many listeners may run at the same time; running listeners are not interrupted.

        :raises ConfigError: the number is out of range.
        """
        dataclasses.replace(self._options, consume_threads=consume_threads)
        self._group.threads = consume_threads
        if self._runtime is not None:
            self._runtime.resize(consume_threads)

    # -- state

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues this consumer owns now, including those of the retry topic."""
        return sorted(self._group.shown(queue) for queue in self._group.queues)

    def is_listener_thread(self, thread: threading.Thread) -> bool:
        """True if ``thread`` is a thread that runs listeners: it must not wait for :meth:`close`."""
        return self._runtime is not None and self._runtime.dispatcher.threads.owns(thread)

    def __repr__(self) -> str:
        state = self._group.state.value
        return f"PushConsumer(group={self.group!r}, {state}, topics={sorted(self.topics())}, {len(self.queues)} queues)"

    # -- a member of the client instance

    def heartbeat(self) -> ConsumerData:
        """The entry of this consumer in heartbeats to brokers."""
        return ConsumerData(
            group_name=self.group,
            message_model=self._options.message_model.value,
            consume_from_where=self._options.consume_from.value,
            subscription_data_set=list(self._group.subscriptions.values()),
        )

    def topics(self) -> set[str]:
        """The subscribed topics, including the retry topic."""
        return set(self._group.subscriptions)

    async def on_ids_changed(self) -> None:
        """Trigger a rebalance, because the members of the group have changed."""
        if self._runtime is not None:
            self._runtime.rebalancer.trigger()

    async def persist_offsets(self) -> None:
        """Send the offsets of the queues it owns to their brokers, or write them to a file when broadcasting."""
        self._group.offsets.retain({*self._group.queues, *self._group.leaving})
        await self._group.offsets.persist(self._group.queues)

    # -- answers to brokers

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, smaller or greater than the current ones; queues it does not own are ignored."""
        for queue, offset in offsets.items():
            process = self._group.queues.get(queue)
            if process is not None and not process.has_invisible_time and self._runtime is not None:
                await self._runtime.rebalancer.reset(process, offset)

    def running_info(self) -> dict[str, Any]:
        """The state of the consumer: the JSON object of Java's ConsumerRunningInfo."""
        return running_info.running_info(self._group)

    def stacks(self) -> str:
        """The stacks of all threads of the process and of the tasks that run ``async def`` listeners, as text."""
        return stacks.everything(self._runtime.dispatcher.tasks() if self._runtime is not None else ())

    async def consume_directly(self, message: MessageExt) -> dict[str, Any]:
        """Pass one message to its listener at once, for an operator; no offset changes.

        :returns: the JSON object of Java's ConsumeMessageDirectlyResult.
        """
        return await running_info.consume_directly(self._group, self._listeners, message)
