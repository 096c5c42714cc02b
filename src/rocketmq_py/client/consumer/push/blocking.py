"""The push consumer for programs without an event loop of their own: the same names, calls that wait.

A façade over the asyncio consumer, which runs in the portal's loop. Plain listeners run in the consumer's threads,
``async def`` listeners in the portal's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar, Unpack

from rocketmq_py.client.consumer.blocking_member import BlockingMember
from rocketmq_py.client.consumer.dispatch.listeners import AnyListener
from rocketmq_py.client.consumer.options import PushSettings
from rocketmq_py.client.consumer.push import consumer as aio
from rocketmq_py.client.consumer.rebalance.rebalancer import QueuesChanged
from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.client.hooks.hooks import ConsumeHook
from rocketmq_py.client.hooks.tracing import Trace
from rocketmq_py.model import MessageQueue

F = TypeVar("F", bound=Callable[..., Any])


class PushConsumer(BlockingMember[aio.PushConsumer]):
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
    :param queues_changed: told when the queues of this consumer change; must not block.
    :param hooks: called before and after every call of a listener, in its thread.
    :param trace: leave traces of messages in the brokers' trace topic, or in the one named here; see
        :mod:`rocketmq_py.client.hooks.tracing`. Off by default.
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
        **settings: Unpack[PushSettings],
    ) -> None:
        super().__init__()
        self._aio = aio.PushConsumer(
            group,
            namesrv,
            listener=listener,
            queues_changed=queues_changed,
            hooks=hooks,
            trace=trace,
            **settings,
        )

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
        self._portal.call(lambda: self._aio.subscribe(topic, tags, listener, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Takes a topic away; its queues are let go."""
        self._portal.call(self._aio.unsubscribe, topic)

    def on(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Callable[[F], F]:
        """Subscribes a topic with the decorated function as its listener."""

        def subscribed(function: F) -> F:
            self.subscribe(topic, tags, function, sql=sql)
            return function

        return subscribed

    # -- life

    def start(self) -> None:
        """Joins the group and begins to consume; returns when it has seen the group and taken its queues.

        :raises ConfigError: nothing is subscribed, a listener is missing, the client has such a consumer already, or a
            broker does not filter by SQL.
        :raises NetworkError: no name server answers.
        :raises ClosedError: it was closed before.
        """
        self._portal.run(self._aio.start())

    def close(self, timeout: float | None = None) -> None:
        """Leaves the group: no further message begins, running listeners finish, their results and the offsets are
        stored, the brokers told. May be called more than once; in a listener it returns at once and goes on by itself.

        :param timeout: seconds to wait for running listeners; None: as long as they take. What a listener has not
            finished by then is delivered again, to this or another member.
        """
        closing = self._portal.submit(self._aio.close(timeout))
        if not self._aio.is_listener_thread(threading.current_thread()):
            closing.result()

    def __enter__(self) -> Self:
        if self._aio.topics():
            self.start()
        return self

    def suspend(self) -> None:
        """Pulls nothing more until :meth:`resume`; what is held already is still consumed."""
        self._portal.call(self._aio.suspend)

    def resume(self) -> None:
        """Pulls again."""
        self._portal.call(self._aio.resume)

    def resize(self, consume_threads: int) -> None:
        """Has at most ``consume_threads`` listeners at work at one time from now on, running ones aside.

        :raises ConfigError: out of range.
        """
        self._portal.call(self._aio.resize, consume_threads)

    # -- looking at it

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues this consumer has now, those of the retry topic included."""
        return self._aio.queues

    def health(self) -> Health:
        """ConsumerState, queues and rates as they are now."""
        return self._portal.call(self._aio.health)

    def lag(self) -> dict[MessageQueue, int]:
        """Messages not yet consumed of each of its queues, as the brokers count now.

        :raises NetworkError: a broker cannot be asked.
        """
        return self._portal.run(self._aio.lag())
