"""The role of this broker among those of its name: a master, or a slave and its master."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.broker.config.broker_config import BrokerConfig

_log = logging.getLogger(__name__)


class Master(NamedTuple):
    """The addresses of a slave's master; None if unknown.

    :param address: the address for requests.
    :param ha_address: the address for replication.
    """

    address: str | None = None
    ha_address: str | None = None


NO_MASTER = Master()
MASTER_ID = 0


class Role:
    """The role of one broker.

    A name server that has just started does not know the master yet, so reports that name a master take precedence over
    those that do not, and among them the latest. The HA address is kept when the master is gone, so that the slave can
    reconnect without a new report.

    :param port: the broker's port; the HA port is the next one unless it is configured.
    """

    def __init__(self, config: BrokerConfig, port: int) -> None:
        self._config = config
        self.ha_port = config.ha_listen_port or port + 1
        """The port at which slaves copy this broker's commit log."""
        self._reports: dict[str, Master] = {}
        self._watchers: list[Callable[[Master], None]] = []
        self.master = Master(None, config.ha_master_address or None) if self.is_slave else NO_MASTER
        """The addresses of the master of a slave, as last reported; :data:`NO_MASTER` at a master."""
        self.alive_replicas = config.total_replicas
        """The number of brokers of this name that are alive, this one included; before the first report, the configured
        number.
        """
        self._smallest_id = MASTER_ID
        self._on_acting: list[Callable[[bool], None]] = []

    @property
    def name(self) -> str:
        """ASYNC_MASTER, SYNC_MASTER or SLAVE."""
        return self._config.broker_role

    @property
    def is_slave(self) -> bool:
        return self._config.is_slave

    @property
    def broker_id(self) -> int:
        """0 for a master, a different positive number for each slave."""
        return self._config.broker_id

    @property
    def ha_address(self) -> str:
        """The address of this broker's HA port, as registered at the name servers."""
        ip = self._config.broker_ip2 or self._config.broker_ip1
        return f"[{ip}]:{self.ha_port}" if ":" in ip else f"{ip}:{self.ha_port}"

    def add_master_listener(self, watcher: Callable[[Master], None]) -> None:
        """Call ``watcher`` with the master now, and whenever it changes."""
        self._watchers.append(watcher)
        watcher(self.master)

    # -- acting master

    @property
    def is_acting(self) -> bool:
        """True if this slave acts as master: it has the smallest id of the brokers that are alive."""
        return self.is_slave and self._smallest_id == self.broker_id

    def add_acting_listener(self, watcher: Callable[[bool], None]) -> None:
        """Call ``watcher`` with True or False whenever this slave begins or stops acting as master."""
        self._on_acting.append(watcher)

    def update_smallest_id(self, broker_id: int, address: str | None) -> bool:
        """Update which live broker of this name has the smallest id; return True if it has changed.

        Ignored at a master and at a slave that may not act as master.
        """
        if not self.is_slave or not self._config.enable_slave_acting_master or broker_id == self._smallest_id:
            return False
        acted, self._smallest_id = self.is_acting, broker_id
        name = self._config.broker_name
        _log.warning("broker %s: the smallest id is now %d, at %s", name, broker_id, address)
        if self.is_acting:
            _log.warning("broker %s (id %d) acts as master", name, self.broker_id)
        elif acted:
            _log.warning("broker %s (id %d) does not act as master any more", name, self.broker_id)
        if self.is_acting != acted:
            for watcher in self._on_acting:
                watcher(self.is_acting)
        if broker_id != MASTER_ID:
            for by in list(self._reports):
                self.update_master(by, None, None)
        return True

    def update_master(self, by: str, address: str | None, ha_address: str | None) -> None:
        """Update the master; ignored at a master.

        :param by: the source of the report; it replaces the source's previous report.
        :param address: None if the source knows no master.
        """
        if not self.is_slave:
            return
        self._reports.pop(by, None)
        self._reports[by] = Master(address, ha_address)
        known = [report for report in self._reports.values() if report.address]
        found = known[-1] if known else NO_MASTER
        self._set_master(
            Master(found.address, self._config.ha_master_address or found.ha_address or self.master.ha_address)
        )

    def _set_master(self, master: Master) -> None:
        if master == self.master:
            return
        if master.address != self.master.address:
            _log.info("the master of %s is %s", self._config.broker_name, master.address or "unknown")
        self.master = master
        for watcher in self._watchers:
            watcher(master)
