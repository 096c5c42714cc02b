"""What all parts of the administration share: start, close, and the brokers and name servers that requests go to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.lifetime import AsyncLifetime
from rocketmq_py.client.name_servers import name_servers
from rocketmq_py.client.queue_requests import ask_about_queue
from rocketmq_py.core.route import MASTER_ID, pick_address
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import ClusterInfo
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.tls import Tls
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import Credentials

T = TypeVar("T")

Refusals = tuple[type[BrokerError], ...]


class AdminBase(AsyncLifetime):
    """Connections and the choice of brokers. See :class:`~rocketmq_py.client.admin.admin.Admin`."""

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        timeout: float = 5.0,
        instance: ClientInstance | None = None,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        skip_silent: bool = False,
    ) -> None:
        self._namesrv = [] if instance is not None else name_servers(namesrv)
        self._timeout = timeout
        self._skip_silent = skip_silent
        self._silent: dict[str, NetworkError] = {}
        self._own_instance = instance is None
        self._instance = instance or ClientInstance(
            self._namesrv, address_map=address_map, tls=tls, credentials=credentials, timeout=timeout
        )

    @property
    def silent(self) -> dict[str, NetworkError]:
        """Brokers that were left out because they do not answer: the error by broker name."""
        return dict(self._silent)

    async def start(self) -> None:
        """Get ready. May be called more than once."""
        self._instance.connections.check_usable()

    async def close(self) -> None:
        """Close the connections. May be called more than once."""
        if self._own_instance:
            await self._instance.stop()

    async def cluster(self) -> ClusterInfo:
        """The registered brokers, by name and by cluster."""
        answer = await self._instance.name_servers.invoke(RequestCode.GET_BROKER_CLUSTER_INFO)
        return ClusterInfo.decode(answer.body)

    # -- choice of brokers

    async def _ask(self, address: str, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        return await self._instance.connections.invoke(address, code, header, body, self._timeout)

    async def _ask_owner(
        self, queue: MessageQueue, code: RequestCode, header: Header | None, body: bytes = b""
    ) -> Command:
        """The answer of the broker that serves a queue."""
        return await ask_about_queue(self._instance, queue, code, header, body, timeout=self._timeout)

    async def _ask_all(
        self, addresses: Iterable[str], code: RequestCode, header: Header | None, body: bytes = b""
    ) -> None:
        await asyncio.gather(*(self._ask(address, code, header, body) for address in addresses))

    async def _ask_each(
        self,
        brokers: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        *,
        without: Refusals = (),
    ) -> dict[str, Command]:
        """The answers by broker name.

        :param without: leave out brokers that refuse with one of these errors.
        :raises NetworkError: a broker does not answer; with ``skip_silent``: none does.
        """
        asked = [name for name in brokers if name not in self._silent]
        answers = await asyncio.gather(
            *(self._or_left_out(name, self._unless(without, brokers[name], code, header)) for name in asked)
        )
        if brokers and brokers.keys() <= self._silent.keys():
            raise self._silent[next(iter(brokers))]
        return {name: answer for name, answer in zip(asked, answers, strict=True) if answer is not None}

    async def _or_left_out(self, broker: str, answer: Awaitable[T]) -> T | None:
        """The answer of a broker; None if it does not answer and ``skip_silent`` is on."""
        try:
            return await answer
        except NetworkError as e:
            self._leave_out(broker, e)
            return None

    def _leave_out(self, broker: str, error: NetworkError) -> None:
        """Note that a broker does not answer, so that it is not asked again.

        :raises NetworkError: ``error``, if ``skip_silent`` is off.
        """
        if not self._skip_silent:
            raise error
        self._silent[broker] = error

    async def _unless(
        self, refusals: Refusals, address: str, code: RequestCode, header: Header | None
    ) -> Command | None:
        try:
            return await self._ask(address, code, header)
        except refusals:
            return None

    async def _brokers(self, cluster: str | None = None) -> dict[str, str]:
        """The address of each broker of a cluster, or of all: its master, or a slave if it has no master."""
        return _addresses(await self.cluster(), cluster)

    async def _brokers_of(self, topic: str) -> dict[str, str]:
        """The address of each broker that holds a topic, as :meth:`_brokers`.

        :raises NoRouteError: the name server does not know the topic.
        """
        route = await self._instance.routes.refresh(topic)
        found = {name: pick_address(ids) for name, ids in sorted(route.brokers.items())}
        return {name: address for name, address in found.items() if address is not None}

    async def _masters(self, cluster: str | None, brokers: Collection[str] | None = None) -> list[str]:
        """The address of each master of a cluster, or of all; only of the named ``brokers``, if they are given.

        :raises ConfigError: there is none, or a named one is unknown.
        """
        info = await self.cluster()
        names = _names(info, cluster)
        unknown = sorted(set(brokers or ()).difference(names))
        if unknown:
            raise ConfigError(
                f"no broker {', '.join(unknown)} is registered at name servers {self._instance.name_servers}; known "
                f"there: {', '.join(sorted(names)) or 'none'}"
            )
        wanted = names if brokers is None else brokers
        found = [ids[MASTER_ID] for name in wanted if MASTER_ID in (ids := info.broker_addr_table[name].broker_addrs)]
        if not found:
            which = "no master is registered" if cluster is None else f"no master of cluster {cluster!r} is registered"
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ConfigError(f"{which} at name servers {self._instance.name_servers}; clusters known there: {known}")
        return found

    async def _masters_and_slaves(self, cluster: str | None) -> list[str]:
        """The address of each broker of a cluster, or of all. Errors as :meth:`_masters`."""
        masters = await self._masters(cluster)
        info = await self.cluster()
        slaves = {
            address for name in _names(info, cluster) for address in info.broker_addr_table[name].broker_addrs.values()
        }
        return [*masters, *sorted(slaves.difference(masters))]

    def __repr__(self) -> str:
        return f"Admin({self._instance.name_servers})"


def _names(info: ClusterInfo, cluster: str | None) -> list[str]:
    """The names of a cluster's brokers, or of all."""
    wanted = info.broker_addr_table if cluster is None else info.cluster_addr_table.get(cluster, ())
    return sorted(name for name in wanted if name in info.broker_addr_table)


def _addresses(info: ClusterInfo, cluster: str | None) -> dict[str, str]:
    found = {name: pick_address(info.broker_addr_table[name].broker_addrs) for name in _names(info, cluster)}
    return {name: address for name, address in found.items() if address is not None}
