"""The base class of the administration: start, close, and the choice of brokers that a request goes to."""

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
    """Base of :class:`~rocketmq_py.client.admin.admin.Admin`: connections, and the choice of brokers for requests."""

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
        """The brokers that ``skip_silent`` skips because they did not answer: by broker name, with the error."""
        return dict(self._silent)

    async def start(self) -> None:
        """Check that this object is not closed; connections are made by the first requests. May be repeated."""
        self._instance.connections.check_usable()

    async def close(self) -> None:
        """Close the connections, unless they belong to a shared ``instance``. May be called more than once."""
        if self._own_instance:
            await self._instance.stop()

    async def cluster(self) -> ClusterInfo:
        """Ask a name server for all registered brokers: their addresses by broker name, and their names by cluster."""
        answer = await self._instance.name_servers.invoke(RequestCode.GET_BROKER_CLUSTER_INFO)
        return ClusterInfo.decode(answer.body)

    # -- choice of brokers

    async def _ask(self, address: str, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Command:
        return await self._instance.connections.invoke(address, code, header, body, self._timeout)

    async def _ask_owner(
        self, queue: MessageQueue, code: RequestCode, header: Header | None, body: bytes = b""
    ) -> Command:
        """Send a request to the broker that serves a queue; returns the answer."""
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
        """Send a request to several brokers; returns the answers by broker name.

        :param brokers: addresses by broker name.
        :param without: leave out the answers of brokers that refuse with one of these errors.
        :raises NetworkError: a broker does not answer; with ``skip_silent``: no broker answers.
        """
        asked = [name for name in brokers if name not in self._silent]
        answers = await asyncio.gather(
            *(self._or_left_out(name, self._unless(without, brokers[name], code, header)) for name in asked)
        )
        if brokers and brokers.keys() <= self._silent.keys():
            raise self._silent[next(iter(brokers))]
        return {name: answer for name, answer in zip(asked, answers, strict=True) if answer is not None}

    async def _or_left_out(self, broker: str, answer: Awaitable[T]) -> T | None:
        """Await the answer of a broker; None if it does not answer and ``skip_silent`` is on."""
        try:
            return await answer
        except NetworkError as e:
            self._leave_out(broker, e)
            return None

    def _leave_out(self, broker: str, error: NetworkError) -> None:
        """Add a broker that does not answer to :attr:`silent`, so that it is not asked again.

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
        """The addresses of all brokers by broker name: of the master, or of a slave if there is no master.

        :param cluster: only brokers of this cluster.
        """
        return _addresses(await self.cluster(), cluster)

    async def _brokers_of(self, topic: str) -> dict[str, str]:
        """The addresses of the brokers that have a topic, by broker name: of the master, or else of a slave.

        :raises NoRouteError: the name server does not know the topic.
        """
        route = await self._instance.routes.refresh(topic)
        found = {name: pick_address(ids) for name, ids in sorted(route.brokers.items())}
        return {name: address for name, address in found.items() if address is not None}

    async def _masters(self, cluster: str | None, brokers: Collection[str] | None = None) -> list[str]:
        """The addresses of all masters.

        :param cluster: only masters of this cluster.
        :param brokers: only masters of these brokers, by name.
        :raises ConfigError: there is no master, or one of ``brokers`` is not registered.
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
        """The addresses of all masters, then of all slaves, sorted. Parameters and errors as of :meth:`_masters`."""
        masters, info = await asyncio.gather(self._masters(cluster), self.cluster())
        slaves = {
            address for name in _names(info, cluster) for address in info.broker_addr_table[name].broker_addrs.values()
        }
        return [*masters, *sorted(slaves.difference(masters))]

    def __repr__(self) -> str:
        return f"Admin({self._instance.name_servers})"


def _names(info: ClusterInfo, cluster: str | None) -> list[str]:
    """The names of the registered brokers of a cluster, sorted; None means of all clusters."""
    wanted = info.broker_addr_table if cluster is None else info.cluster_addr_table.get(cluster, ())
    return sorted(name for name in wanted if name in info.broker_addr_table)


def _addresses(info: ClusterInfo, cluster: str | None) -> dict[str, str]:
    found = {name: pick_address(info.broker_addr_table[name].broker_addrs) for name in _names(info, cluster)}
    return {name: address for name, address in found.items() if address is not None}
