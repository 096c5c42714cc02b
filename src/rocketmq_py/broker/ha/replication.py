"""Replication of one broker, whatever its role: the port slaves fetch the log at, and the master a slave follows.

Knows what belongs to which role and how it is told to tools (HARuntimeInfo, ExchangeHAInfo). Refuses to know how bytes
travel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.broker.config.broker_config import SYNC_MASTER, BrokerConfig
from rocketmq_py.broker.ha.master import HaMaster, SlaveLink
from rocketmq_py.broker.ha.role import Role
from rocketmq_py.broker.ha.slave import HaSlave
from rocketmq_py.core.broker.replication import required_replicas
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.headers.cluster import ExchangeHaInfo
from rocketmq_py.store import MessageStore

_log = logging.getLogger(__name__)

_OF_SLAVE = ("lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset", "transferredByteInSecond")


class Replication:
    """Sends the log to slaves, and fetches that of a master if this is a slave.

    :param address: of this broker, as clients are told.
    :param clock: the time in milliseconds.
    """

    def __init__(
        self, config: BrokerConfig, store: MessageStore, role: Role, address: str, clock: Callable[[], int]
    ) -> None:
        self._config = config
        self._store = store
        self._role = role
        self._address = address
        self._clock = clock
        self._end_at_start = self._master_flushed = 0
        self.master = HaMaster(config, store, clock)
        self.slave: HaSlave | None = None

    def open(self) -> None:
        """Begin to look at the store, which is open by now."""
        self._end_at_start = self._store.max_physical_offset
        self._store.on_written = self.master.written
        if self._role.is_slave:
            self.slave = HaSlave(self._config, self._store, self._clock)

    async def start(self) -> None:
        """Wait for slaves, and follow the master.

        :raises ConfigError: ``haListenPort`` is set and cannot be listened on.
        """
        host = self._config.bind_address
        try:
            await self.master.listen(host, self._role.ha_port)
        except ConfigError as e:
            if self._config.ha_listen_port:
                raise
            self._role.ha_port = await self.master.listen(host, 0)
            # Who lets the system choose the broker's port expects none in particular for the slaves.
            level = logging.WARNING if self._config.listen_port else logging.INFO
            _log.log(level, "%s; slaves are waited for at %d instead", e, self._role.ha_port)
        if self.slave is not None:
            self.slave.start()
            self._role.watch(lambda master: self._follow(master.ha_address))

    def _follow(self, address: str | None) -> None:
        if self.slave is not None:
            self.slave.follow(address)

    async def hand_over(self, seconds: float) -> None:
        """Give the slaves what they do not have yet, before this master ends.

        :param seconds: how long that may take.
        """
        for link in await self.master.hand_over(seconds):
            lacks = self._store.max_physical_offset - max(link.acknowledged, 0)
            _log.warning("the slave %s lacks the last %d bytes of the log, and this master ends", link.address, lacks)

    async def stop(self) -> None:
        """End all connections. Harmless when ended already."""
        if self.slave is not None:
            await self.slave.stop()
        self.master.close()

    def tick(self) -> None:
        """Due several times a second."""
        self.master.tick()
        if self.slave is not None:
            self.slave.tick()

    def slaves_wanted(self) -> int | None:
        """How many slaves are to have a message before it is answered; None where too few are there to take it.

        Only where slaves may act as master is it known who is there.
        """
        config = self._config
        if config.broker_role != SYNC_MASTER:
            return 0
        if not config.enable_slave_acting_master:
            return config.in_sync_replicas - 1
        replicas = required_replicas(
            config.in_sync_replicas, config.min_in_sync_replicas, min(self._role.alive, 1 + self.in_sync_slaves()),
            adapts=config.enable_auto_in_sync_replicas,
        )  # fmt: skip
        return None if replicas is None else replicas - 1

    def in_sync_slaves(self) -> int:
        """How many slaves are connected and not far behind."""
        end = self._store.max_physical_offset
        return sum(self.master.is_in_sync(link, end) for link in self.master.links)

    # -- what is told of it

    def exchange(self, told: ExchangeHaInfo) -> ExchangeHaInfo:
        """A broker of the same name says where the master is, or asks for it (906)."""
        if told.master_ha_address is not None:
            self._role.told("a broker of its name", told.master_address, told.master_ha_address)
            return ExchangeHaInfo()
        if self._role.is_slave:
            return ExchangeHaInfo()
        return ExchangeHaInfo(
            master_ha_address=self._role.ha_address, master_flush_offset=self._end_at_start,
            master_address=self._address,
        )  # fmt: skip

    def master_flushed(self, offset: int | None) -> None:
        """A slave is told up to where the log of its master is on disk (908)."""
        if self.slave is not None and offset is not None:
            self._master_flushed = offset

    def status(self) -> dict[str, object]:
        """How it is doing, as tools are told (907)."""
        slave, end = self.slave, self._store.max_physical_offset
        links = self.master.links if slave is None else []
        return {
            "haClientRuntimeInfo": self._of_slave(slave, end),
            "haConnectionInfo": [self._of(link, end) for link in links],
            "inSyncSlaveNums": self.in_sync_slaves() if slave is None else 0, "master": slave is None,
            "masterCommitLogMaxOffset": end if slave is None else 0,
        }  # fmt: skip

    def _of_slave(self, slave: HaSlave | None, end: int) -> dict[str, object]:
        """How this slave is doing; a master says nothing in as many words."""
        if slave is None:
            return dict.fromkeys(_OF_SLAVE, 0)
        address = {} if slave.address is None else {"masterAddr": slave.address}
        return {
            **address, "lastReadTimestamp": slave.read_ms if slave.is_connected else 0,
            "lastWriteTimestamp": slave.written_ms, "masterFlushOffset": self._master_flushed, "maxOffset": end,
            "transferredByteInSecond": slave.received.last_second(self._clock()),
        }  # fmt: skip

    def _of(self, link: SlaveLink, end: int) -> dict[str, object]:
        """How one slave of this master is doing."""
        return {
            "addr": link.address, "diff": end - link.acknowledged, "inSync": self.master.is_in_sync(link, end),
            "slaveAckOffset": link.acknowledged, "transferFromWhere": link.next,
            "transferredByteInSecond": link.sent.last_second(self._clock()),
        }  # fmt: skip
