"""The console's connection to a cluster: shared connections, bounded concurrency, answers that are kept for seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.name_servers import name_servers
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.errors import NetworkError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.tls import Tls
from rocketmq_py.wire.signing import Credentials

T = TypeVar("T")
R = TypeVar("R")

CONCURRENT = 16
"""Number of requests that one page has in flight at a time."""

KEPT_SECONDS = 3.0
"""How long an answer about the whole cluster is used again."""

PRODUCER_GROUP = "rocketmq-console"


class Answer(NamedTuple):
    """An answer about the whole cluster.

    :ivar silent: the brokers that did not answer, with the reason; their part is missing in ``value``.
    """

    value: Any
    silent: dict[str, NetworkError]


class Connection:
    """Connections to the brokers of one cluster, shared by all pages. Use it in the event loop of the pages.

    :param clock: monotonic clock, in seconds.
    """

    def __init__(
        self,
        namesrv: str | None,
        *,
        timeout: float = 3.0,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.namesrv = ";".join(name_servers(namesrv))
        self._timeout = timeout
        self._address_map, self._tls, self._credentials = address_map, tls, credentials
        self._instance = ClientInstance(
            name_servers(namesrv), address_map=address_map, tls=tls, credentials=credentials, timeout=timeout
        )
        self._clock = clock
        self._kept: dict[str, tuple[float, asyncio.Future[Answer]]] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._instance.stop()

    def admin(self) -> Admin:
        """Return an Admin for one page, which skips brokers that do not answer."""
        return Admin(instance=self._instance, timeout=self._timeout, skip_silent=True)

    def admin_of(self, namesrv: str) -> Admin:
        """Return an Admin with connections of its own, not started, which asks these name servers."""
        return Admin(
            namesrv, timeout=self._timeout, address_map=self._address_map, tls=self._tls, credentials=self._credentials
        )

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer]:
        """A producer that sends each message once."""
        async with Producer(PRODUCER_GROUP, instance=self._instance, retries=0, send_timeout=self._timeout) as producer:
            yield producer

    async def shared(self, name: str, ask: Callable[[Admin], Awaitable[T]]) -> Answer:
        """Return the answer to a question about the whole cluster; pages that ask at the same time share one request.

        :param name: key of the question; the answer is kept for ``KEPT_SECONDS``.
        :raises RocketMQError: nobody answers, or a broker refuses.
        """
        now = self._clock()
        kept = self._kept.get(name)
        if kept is None or now - kept[0] > KEPT_SECONDS or _failed(kept[1]):
            kept = self._kept[name] = (now, asyncio.ensure_future(self._ask(ask)))
        # A page that is cancelled must not cancel the request of the others.
        return await asyncio.shield(kept[1])

    async def _ask(self, ask: Callable[[Admin], Awaitable[T]]) -> Answer:
        admin = self.admin()
        value = await ask(admin)
        return Answer(value, admin.silent)

    async def invoke(self, address: str, code: RequestCode, body: bytes) -> None:
        """Send a request without a header to a broker.

        :raises BrokerError: the broker refuses it.
        """
        await self._instance.connections.invoke(address, code, None, body, self._timeout)

    def forget(self) -> None:
        """Forget all kept answers, after a change."""
        self._kept.clear()


def _failed(future: asyncio.Future[Answer]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


async def each(items: Iterable[T], ask: Callable[[T], Awaitable[R]], *, at_once: int = CONCURRENT) -> list[R]:
    """Ask about each item, with a bounded number of requests in flight; return the answers in the items' order."""
    room = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with room:
            return await ask(item)

    return list(await asyncio.gather(*map(one, items)))
