"""The brokers of the same broker name, and which of them has the smallest id (``enableSlaveActingMaster``).

Sends heartbeats to the name servers, queries the member group, and receives notifications. The listeners of ``role``
react to changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.cluster.route_lookup import ask_name_servers
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.errors import BadHeader, RocketMQError
from rocketmq_py.protocol.bodies.route import BrokerMemberGroupData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.cluster import NotifyMinBrokerIdChange
from rocketmq_py.protocol.headers.namesrv import BrokerHeartbeat, BrokerMemberGroup
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.tasks import Background
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.fastjson import load_object

_log = logging.getLogger(__name__)


class Membership:
    """Sends heartbeats to the name servers and queries the brokers of this name, each every second by default.

    :param address: this broker's registered address.
    :param renew: registers this broker again soon; the response contains the master's address.
    """

    def __init__(
        self, config: BrokerConfig, role: Role, rpc_client: RpcClient, address: str, renew: Callable[[], None]
    ) -> None:
        self._config = config
        self._role = role
        self._rpc_client = rpc_client
        self._address = address
        self._renew = renew
        self._work = Background()
        self._is_failing = False

    def start(self) -> None:
        """Start sending heartbeats and queries; does nothing unless ``enableSlaveActingMaster`` is on."""
        if not self._config.enable_slave_acting_master:
            return
        self._work.start(
            _every(self._config.broker_heartbeat_interval, self._heartbeat),
            _every(self._config.sync_broker_member_group_period, self._query_members),
        )

    async def stop(self) -> None:
        """Stop heartbeats and queries, and close the connections. Does nothing if stopped already."""
        await self._work.stop()
        self._rpc_client.close()

    def notified(self, news: NotifyMinBrokerIdChange) -> None:
        """Handle a name server's notification that another broker has the smallest id."""
        if news.broker_name == self._config.broker_name and news.min_broker_id is not None:
            self._update_smallest_id(news.min_broker_id, news.min_broker_addr)

    def _update_smallest_id(self, broker_id: int, address: str | None) -> None:
        if self._role.update_smallest_id(broker_id, address):
            self._renew()

    async def members(self) -> dict[int, str]:
        """Query the name servers for the addresses of this name's brokers, by id; empty if none has an answer."""
        header = BrokerMemberGroup(cluster_name=self._config.broker_cluster_name, broker_name=self._config.broker_name)
        command = Command(RequestCode.GET_BROKER_MEMBER_GROUP, ext=header.to_ext())
        failures: list[RocketMQError] = []

        async def ask(address: str) -> dict[int, str] | None:
            reply = await self._rpc_client.ask(address, command, self._timeout)
            return _members(bytes(reply.body)) or None

        found = await ask_name_servers(self._config, ask, lambda _, error: failures.append(error))
        if found is not None:
            self._is_failing = False
        elif failures and not self._is_failing:
            self._is_failing = True
            _log.warning("no name server returns the members of broker %s: %s", self._config.broker_name, failures[-1])
        return found or {}

    @property
    def _timeout(self) -> float:
        return self._config.send_heartbeat_timeout_millis / 1000

    async def _query_members(self) -> None:
        members = await self.members()
        if members:
            self._role.alive_replicas = len(members.keys() | {self._role.broker_id})
            smallest = min(members)
            self._update_smallest_id(smallest, members[smallest])

    async def _heartbeat(self) -> None:
        config = self._config
        header = BrokerHeartbeat(
            cluster_name=config.broker_cluster_name, broker_addr=self._address, broker_name=config.broker_name,
            broker_id=config.broker_id,
        )  # fmt: skip
        command = Command(RequestCode.BROKER_HEARTBEAT, ext=header.to_ext())
        await asyncio.gather(*(self._heartbeat_to(address, command) for address in config.namesrv_addresses))

    async def _heartbeat_to(self, address: str, command: Command) -> None:
        try:
            await self._rpc_client.invoke(address, command, self._timeout)
        except RocketMQError as e:
            _log.debug("name server %s did not receive the heartbeat of this broker: %s", address, e)


def _members(body: bytes) -> dict[int, str]:
    try:
        group = load_object(body).get("brokerMemberGroup")
    except ValueError as e:
        raise BadHeader(f"expected a brokerMemberGroup, not {body[:40]!r}: {e}") from e
    return BrokerMemberGroupData.convert(group).broker_addrs


async def _every(interval_ms: int, job: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        await job()
