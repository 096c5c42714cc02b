"""The push consumer: messages of a group's topics come to listeners as they arrive.

Puts the parts together and takes them apart again: a strategy that fetches messages, a dispatcher that takes them to
listeners, a rebalancer that says which queues are ours. asyncio is the source; ``push_blocking`` is the same for
programs without an event loop.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import Any, Self, TypeVar, Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import broker_requests, filters, running_info as push_running, stacks
from rocketmq_py.client.consumer.consumer_group import ConsumerState
from rocketmq_py.client.consumer.dispatch.concurrent import Listeners
from rocketmq_py.client.consumer.dispatch.listeners import AnyListener, Listener, make_listener
from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyListener
from rocketmq_py.client.consumer.group_member import GroupMember, split
from rocketmq_py.client.consumer.options import PushOptions, PushSettings
from rocketmq_py.client.consumer.push.runtime import PushRuntime, QueuesChanged
from rocketmq_py.client.hooks.hooks import ConsumeHook, hooked
from rocketmq_py.client.hooks.tracing import ConsumeTrace, Trace, Tracer
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.client import ConsumerData
from rocketmq_py.protocol.names import check_topic

_log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


class PushConsumer(GroupMember):
    """A member of a consumer group whose listeners get the messages of its queues: several at a time, in no order,
    unless ``orderly`` says otherwise.

    Messages are delivered at least once. A listener is ``listener(message)`` or ``listener(messages, context)``, a
    plain function, run in one of ``consume_threads`` threads, or ``async def``. It has succeeded when it returns None
    or ``ConsumeResult.SUCCESS``; when it raises or returns ``ConsumeResult.RECONSUME_LATER`` (or anything else) the
    message is delivered again after 10 s, then 30 s and so on, ``max_reconsume_times`` times, and then kept in the
    group's dead-letter topic.

    With ``orderly=True`` the messages of each queue come one after the other, to one member of the group at a time. One
    that fails comes again after ``suspend_seconds``, and nothing of its queue before it. A listener may return an
    :class:`~rocketmq_py.OrderlyResult`, and gets an :class:`~rocketmq_py.OrderlyContext` instead of the other one.
    With ``message_model=MessageModel.BROADCASTING`` every member gets all messages, and failed ones are dropped.

    As a context manager it starts at once if something is subscribed by then, else when :meth:`start` is called.

    :param group: the consumer group.
    :param namesrv: name servers: ``"host:9876;other:9876"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param listener: gets the messages of all topics that have no listener of their own.
    :param queues_changed: told when the queues of this consumer change.
    :param hooks: called before and after every call of a listener.
    :param trace: leave traces of messages in the brokers' trace topic, or in the one named here; see
        :mod:`rocketmq_py.client.hooks.tracing`. Off by default.
    :param instance: a client to share with other producers and consumers; by default one of its own, made from the
        settings below.
    :param instance_name: the part of the client id after ``ip@``; unique by default, ``DEFAULT`` when broadcasting.
    :param unit_name: appended to the client id.
    :param address_map: other addresses for the ones brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param timeout: seconds to wait for name servers, and for brokers' answers to heartbeats.
    :param settings: what else there is to say of it: see :class:`PushOptions`.
    :raises ConfigError: an argument that can never work.
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

    # -- before the start

    def subscribe(
        self, topic: str, tags: str = "*", listener: AnyListener | None = None, *, sql: str | None = None
    ) -> None:
        """Adds a topic, or changes the filter of one; works while the consumer runs, too.

        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param listener: gets this topic's messages.
        :param sql: an SQL92 expression over message properties instead of tags, for example
            ``"region = 'eu' AND amount > 100"``; brokers need ``enablePropertyFilter=true``. A property beside a number
            must be a number of that kind, else the message does not match; see :mod:`rocketmq_py.core.sql92`.
        :raises ConfigError: an illegal topic name or expression, tags and SQL at once, or a listener of the wrong
            shape.
        """
        made = None if listener is None else self._made(listener)
        self._group.subscribe(check_topic(topic), tags, sql)
        if made is not None:
            self._by_topic[topic] = made
        if self._runtime is not None:
            self._check_listeners()
            self._runtime.rebalancer.trigger()

    def unsubscribe(self, topic: str) -> None:
        """Takes a topic away; its queues are let go."""
        self._group.subscriptions.pop(topic, None)
        if self._runtime is not None:
            self._runtime.rebalancer.trigger()

    def on(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Callable[[F], F]:
        """Subscribes a topic with the decorated function as its listener."""

        def subscribed(function: F) -> F:
            self.subscribe(topic, tags, function, sql=sql)
            return function

        return subscribed

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
        """Joins the group and begins to consume; returns when it has seen the group and taken its queues.

        :raises ConfigError: nothing is subscribed, a listener is missing, the client has such a consumer already, or a
            broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: it was closed before.
        """
        if self._group.state is ConsumerState.NEW:
            self._check_listeners()
        await self._begin(self.close)

    async def _join(self) -> None:
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
        """Leaves the group: no further message begins, running listeners finish, their results and the offsets are
        stored, the brokers told. May be called more than once.

        :param timeout: seconds to wait for running listeners; None: as long as they take. What a listener has not
            finished by then is delivered again, to this or another member.
        """
        await self._end(lambda: self._take_apart(timeout))

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
        """Pulls nothing more until :meth:`resume`; what is held already is still consumed."""
        self._group.suspended = True

    def resume(self) -> None:
        """Pulls again."""
        self._group.suspended = False
        if self._runtime is not None:
            self._runtime.fetcher.wake_all()

    def resize(self, consume_threads: int) -> None:
        """Has at most ``consume_threads`` listeners at work at one time from now on, running ones aside.

        :raises ConfigError: out of range.
        """
        dataclasses.replace(self._options, consume_threads=consume_threads)
        self._group.threads = consume_threads
        if self._runtime is not None:
            self._runtime.resize(consume_threads)

    # -- looking at it

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues this consumer has now, those of the retry topic included."""
        return sorted(self._group.queues)

    def is_listener_thread(self, thread: threading.Thread) -> bool:
        """Whether ``thread`` runs listeners, and so must not wait for them to end."""
        return self._runtime is not None and self._runtime.dispatcher.threads.owns(thread)

    def __repr__(self) -> str:
        state = self._group.state.value
        return f"PushConsumer(group={self.group!r}, {state}, topics={sorted(self.topics())}, {len(self.queues)} queues)"

    # -- a member of the client instance

    def heartbeat(self) -> ConsumerData:
        """What brokers are to know of this member."""
        return ConsumerData(
            group_name=self.group,
            message_model=self._options.message_model.value,
            consume_from_where=self._options.consume_from.value,
            subscription_data_set=list(self._group.subscriptions.values()),
        )

    def topics(self) -> set[str]:
        """The topics it subscribes to, its retry topic included."""
        return set(self._group.subscriptions)

    async def on_ids_changed(self) -> None:
        """The group has changed: look who gets what."""
        if self._runtime is not None:
            self._runtime.rebalancer.trigger()

    async def persist_offsets(self) -> None:
        """Sends the offsets of its queues to their brokers."""
        self._group.offsets.retain({*self._group.queues, *self._group.leaving})
        await self._group.offsets.persist(self._group.queues)

    # -- what brokers ask of it

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Goes on from other offsets, smaller or greater, in those of the queues that are ours."""
        for queue, offset in offsets.items():
            process = self._group.queues.get(queue)
            if process is not None and not process.has_invisible_time and self._runtime is not None:
                await self._runtime.rebalancer.reset(process, offset)

    def running_info(self) -> dict[str, Any]:
        """Its state, as Java's ConsumerRunningInfo."""
        return push_running.running_info(self._group)

    def stacks(self) -> str:
        """Where all threads of the process are, and the tasks of its listeners."""
        return stacks.everything(self._runtime.dispatcher.tasks() if self._runtime is not None else ())

    async def consume_directly(self, message: MessageExt) -> dict[str, Any]:
        """Has the listener consume one message now, outside of all queues."""
        return await push_running.consume_directly(self._group, self._listeners, message)
