"""Replication of one broker in either role: the HA port for its slaves, and the connection to its master.

Also the status of replication for tools (HARuntimeInfo, ExchangeHAInfo).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import SYNC_MASTER, BrokerConfig
from rocketmq_py.broker.ha.master import HaMaster, SlaveLink
from rocketmq_py.broker.ha.slave import HaSlave
from rocketmq_py.core.broker.replication import required_replicas
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.headers.cluster import ExchangeHaInfo
from rocketmq_py.server.tls import TlsSettings
from rocketmq_py.store import MessageStore

_log = logging.getLogger(__name__)

_OF_SLAVE = ("lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset", "transferredByteInSecond")


class Replication:
    """Sends the log to slaves; a slave also fetches the log of its master.

    :param address: this broker's address for clients.
    :param clock: returns the time in milliseconds since the epoch.
    :param tls: the broker's TLS settings; None for a broker without TLS.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        role: Role,
        address: str,
        clock: Callable[[], int],
        tls: TlsSettings | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._role = role
        self._address = address
        self._clock = clock
        self._end_at_start = self._master_flushed = 0
        self._tls = tls
        self.master = HaMaster(config, store, clock, tls)
        self.slave: HaSlave | None = None

    def open(self) -> None:
        """Prepare for :meth:`start`; the store must be open."""
        self._end_at_start = self._store.max_physical_offset
        if self._role.is_slave:
            self.slave = HaSlave(self._config, self._store, self._clock, self._tls)

    async def start(self) -> None:
        """Listen for slaves; a slave also begins to fetch its master's log.

        :raises ConfigError: ``haListenPort`` is set and not free.
        """
        host = self._config.bind_address
        try:
            await self.master.listen(host, self._role.ha_port)
        except ConfigError as e:
            if self._config.ha_listen_port:
                raise
            self._role.ha_port = await self.master.listen(host, 0)
            # A broker on a port the system chose has no expected HA port.
            level = logging.WARNING if self._config.listen_port else logging.INFO
            _log.log(level, "%s; listening for slaves at %d instead", e, self._role.ha_port)
        if self.slave is not None:
            self.slave.start()
            self._role.add_master_listener(lambda master: self._follow(master.ha_address))

    def _follow(self, address: str | None) -> None:
        if self.slave is not None:
            self.slave.follow(address)

    async def hand_over(self, seconds: float) -> None:
        """Send the rest of the log to in-sync slaves before this master stops; log those that do not receive it.

        :param seconds: the timeout.
        """
        for link in await self.master.hand_over(seconds):
            lacks = self._store.max_physical_offset - max(link.acknowledged, 0)
            _log.warning("the slave %s lacks the last %d bytes of the log, and this master stops", link.address, lacks)

    async def stop(self) -> None:
        """Stop listening and close all connections. Does nothing if stopped already."""
        if self.slave is not None:
            await self.slave.stop()
        self.master.close()

    def tick(self) -> None:
        """Send heartbeats and close silent connections; called several times a second."""
        self.master.tick()
        if self.slave is not None:
            self.slave.tick()

    def slaves_wanted(self) -> int | None:
        """Return the number of slaves that must have a message before its send is answered; None to refuse the send.

        It is 0 unless this is a SYNC_MASTER. With ``enableSlaveActingMaster`` it depends on the number of live brokers,
        and is None if too few slaves are in sync; otherwise it is always ``inSyncReplicas`` - 1.
        """
        config = self._config
        if config.broker_role != SYNC_MASTER:
            return 0
        if not config.enable_slave_acting_master:
            return config.in_sync_replicas - 1
        in_sync = min(self._role.alive_replicas, 1 + self.in_sync_slaves())
        replicas = required_replicas(
            config.in_sync_replicas, config.min_in_sync_replicas, in_sync, adapts=config.enable_auto_in_sync_replicas
        )
        return None if replicas is None else replicas - 1

    def in_sync_slaves(self) -> int:
        """Return the number of slaves that are connected and in sync."""
        end = self._store.max_physical_offset
        return sum(self.master.is_in_sync(link, end) for link in self.master.links)

    # -- status

    def exchange(self, info: ExchangeHaInfo) -> ExchangeHaInfo:
        """Answer EXCHANGE_BROKER_HA_INFO (906), which another broker of this name sends.

        If ``info`` has a replication address of the master, store it and return an empty answer. Otherwise a master
        returns its own addresses, and a slave an empty answer.
        """
        if info.master_ha_address is not None:
            self._role.update_master("a broker of its name", info.master_address, info.master_ha_address)
            return ExchangeHaInfo()
        if self._role.is_slave:
            return ExchangeHaInfo()
        return ExchangeHaInfo(
            master_ha_address=self._role.ha_address, master_flush_offset=self._end_at_start,
            master_address=self._address,
        )  # fmt: skip

    def master_flushed(self, offset: int | None) -> None:
        """Store the flushed offset of the master's log for :meth:`status` (RESET_MASTER_FLUSH_OFFSET, 908)."""
        if self.slave is not None and offset is not None:
            self._master_flushed = offset

    def status(self) -> dict[str, object]:
        """Return the status of replication for tools, under Java's names (GET_BROKER_HA_STATUS, 907)."""
        slave, end = self.slave, self._store.max_physical_offset
        links = self.master.links if slave is None else []
        return {
            "haClientRuntimeInfo": self._slave_status(slave, end),
            "haConnectionInfo": [self._link_status(link, end) for link in links],
            "inSyncSlaveNums": self.in_sync_slaves() if slave is None else 0, "master": slave is None,
            "masterCommitLogMaxOffset": end if slave is None else 0,
        }  # fmt: skip

    def _slave_status(self, slave: HaSlave | None, end: int) -> dict[str, object]:
        """Return the status of this slave; zeros at a master."""
        if slave is None:
            return dict.fromkeys(_OF_SLAVE, 0)
        address = {} if slave.address is None else {"masterAddr": slave.address}
        return {
            **address, "lastReadTimestamp": slave.read_ms if slave.is_connected else 0,
            "lastWriteTimestamp": slave.written_ms, "masterFlushOffset": self._master_flushed, "maxOffset": end,
            "transferredByteInSecond": slave.received.last_second(self._clock()),
        }  # fmt: skip

    def _link_status(self, link: SlaveLink, end: int) -> dict[str, object]:
        """Return the status of one slave of this master.

        :param end: end offset of this master's log.
        """
        return {
            "addr": link.address, "diff": end - link.acknowledged, "inSync": self.master.is_in_sync(link, end),
            "slaveAckOffset": link.acknowledged, "transferFromWhere": link.next,
            "transferredByteInSecond": link.sent.last_second(self._clock()),
        }  # fmt: skip
