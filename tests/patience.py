"""Clients of tests with servers wait for as long as a busy machine may take.

Their defaults are Java's, 3 and 5 s. On a machine that stands still for so long a producer sends again what is stored
already, and tools give up: nothing a test of something else is about, or expects when it counts messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from rocketmq_py import Admin, LitePullConsumer, Producer, SimpleConsumer, aio
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import send_message_back
from rocketmq_py.client.consumer.calls import pop_calls
from rocketmq_py.client.consumer.offsets import offset_store
from rocketmq_py.client.consumer.rebalance import queue_lock
from rocketmq_py.remoting.connection_pool import ConnectionPool

SECONDS = 60.0
"""Longer than any answer takes."""
_CLIENTS: tuple[type[Any], ...] = (Admin, Producer, aio.Admin, aio.Producer, ClientInstance, ConnectionPool)
_OPTIONS = ("timeout", "send_timeout", "connect_timeout")
_WAITS = (LitePullConsumer.poll, SimpleConsumer.receive, aio.LitePullConsumer.poll, aio.SimpleConsumer.receive)
"""Methods that wait for messages; their timeout is the last parameter."""
_CALLS = (offset_store, pop_calls, queue_lock, send_message_back)


@contextmanager
def patient_clients() -> Iterator[None]:
    """Makes ``SECONDS`` the default of every client's timeouts."""
    with ExitStack() as stack:
        for client in _CLIENTS:
            defaults = client.__init__.__kwdefaults__  # type: ignore[misc]
            longer = {name: SECONDS for name in _OPTIONS if name in defaults}
            assert longer, client
            stack.enter_context(mock.patch.dict(defaults, longer))
        for method in _WAITS:
            stack.enter_context(mock.patch.object(method, "__defaults__", (*method.__defaults__[:-1], SECONDS)))
        for module in _CALLS:
            stack.enter_context(mock.patch.object(module, "TIMEOUT", SECONDS))
        yield
