"""The push consumer for programs without an event loop: the same methods as asyncio's.

Generated from ``rocketmq_py.client.consumer.push.consumer``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from rocketmq_py.client.blocking_instance import ClientInstance, aio_instance
from rocketmq_py.client.consumer.dispatch.listeners import AnyListener
from rocketmq_py.client.consumer.push.consumer import F, PushConsumer as AioSource
from rocketmq_py.client.consumer.push.settings import PushSettings
from rocketmq_py.client.consumer.push.threads import PushMember
from rocketmq_py.client.consumer.rebalance.rebalancer import QueuesChanged
from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.client.hooks.hooks import ConsumeHook
from rocketmq_py.client.hooks.tracing import Trace
from rocketmq_py.model import MessageQueue
from rocketmq_py.serde import Serde


class PushConsumer(PushMember):
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

    Every call can be interrupted (Ctrl-C).
    In a forked child every call raises ForkedError; make an object of its own there.
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
        self._wrap(
            self._make(
                lambda: AioSource(
                    group,
                    namesrv,
                    listener=listener,
                    queues_changed=queues_changed,
                    hooks=hooks,
                    trace=trace,
                    instance=aio_instance(instance),
                    **settings,
                )
            )
        )

    def start(self) -> None:
        """Join the group and start to consume; returns after the first rebalance.

        :raises ConfigError: nothing is subscribed, a listener is missing, the client has a consumer of that group
            already, or a broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: the consumer was closed before.
        """
        self._run(self._aio.start())

    def close(self, timeout: float | None = None) -> None:
        """Stop calling listeners, wait for running ones, store the offsets and leave the group.

        May be called more than once. While it waits, it logs which messages the running listeners have.

        :param timeout: seconds to wait for running listeners; None: the consumer's ``close_timeout``. A message whose
            listener has not ended by then is delivered again.
        """
        self._blocking_close(timeout)

    def health(self) -> Health:
        """A snapshot of the consumer's state, queues, rates, stuck listeners and problems."""
        return self._call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """Ask the brokers how many messages of each queue that this consumer owns are not consumed yet.

        :raises NetworkError: a broker cannot be reached.
        """
        return self._run(self._aio.lag())

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
        self._blocking_subscribe(topic, tags, listener, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic and release its queues."""
        self._call(lambda: self._aio.unsubscribe(topic))

    def on(
        self, topic: str, tags: str = "*", *, sql: str | None = None, type: type[Any] | Serde | None = None
    ) -> Callable[[F], F]:
        """Decorate a function to subscribe to a topic with it as the listener; parameters as of :meth:`subscribe`.

        :param type: what bodies are: a type whose values are written in JSON, or a form of
            :mod:`rocketmq_py.serde`. The listener is ``listener(value)`` or ``listener(value, message)`` then. A
            message whose body does not fit goes to the dead letters at once, the reason in property ``DLQ_REASON``.
        """
        return self._blocking_on(topic, tags, sql=sql, type=type)

    def suspend(self) -> None:
        """Stop pulling until :meth:`resume`; messages that are already pulled are still consumed."""
        self._call(self._aio.suspend)

    def resume(self) -> None:
        """Pull again after :meth:`suspend`."""
        self._call(self._aio.resume)

    def resize(self, consume_threads: int) -> None:
        """Change how many listeners may run at the same time; running listeners are not interrupted.

        :raises ConfigError: the number is out of range.
        """
        self._call(lambda: self._aio.resize(consume_threads))

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues this consumer owns now, including those of the retry topic."""
        return self._blocking_queues()
