"""What this broker is to the others of its name: a master, or a slave and whose.

Knows the configured role and what has been said of the master, by name servers or anybody else. Refuses to know how a
log is replicated, who asks the master for what, and sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.broker.config.broker_config import BrokerConfig

_log = logging.getLogger(__name__)


class Master(NamedTuple):
    """Where a slave finds its master; None where nobody has said so.

    :param address: for requests. :param ha_address: for the bytes of its log.
    """

    address: str | None = None
    ha_address: str | None = None


NO_MASTER = Master()
MASTER_ID = 0


class Role:
    """The role of one broker.

    A name server that has just started has not heard of the master yet, so one that knows it wins over those that do
    not, and the last that was asked over those before. Where the log comes from outlives the master: nobody has to say
    it again for the slave to connect anew.

    :param port: where the broker listens; the replication port is the next one unless it is configured.
    """

    def __init__(self, config: BrokerConfig, port: int) -> None:
        self._config = config
        self.ha_port = config.ha_listen_port or port + 1
        """The port slaves fetch the log at."""
        self._said: dict[str, Master] = {}
        self._watchers: list[Callable[[Master], None]] = []
        self.master = Master(None, config.ha_master_address or None) if self.is_slave else NO_MASTER
        """The master as it is known now. A master's own is :data:`NO_MASTER`."""
        self.alive_replicas = config.total_replicas
        """How many brokers of this name are there, this one among them; at first, how many there are to be."""
        self._smallest = MASTER_ID
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
        """0 for a master, a number of its own for each slave."""
        return self._config.broker_id

    @property
    def ha_address(self) -> str:
        """Where slaves fetch this broker's log, as the name servers are told."""
        ip = self._config.broker_ip2 or self._config.broker_ip1
        return f"[{ip}]:{self.ha_port}" if ":" in ip else f"{ip}:{self.ha_port}"

    def add_master_listener(self, watcher: Callable[[Master], None]) -> None:
        """Have ``watcher`` called with the master now, and whenever another or none is known."""
        self._watchers.append(watcher)
        watcher(self.master)

    # -- acting master

    @property
    def is_acting(self) -> bool:
        """Whether this slave does what else only a master does: it has the smallest id of those that are there."""
        return self.is_slave and self._smallest == self.broker_id

    def add_acting_listener(self, watcher: Callable[[bool], None]) -> None:
        """Have ``watcher`` called whenever this slave begins or ends to act as master."""
        self._on_acting.append(watcher)

    def update_smallest_id(self, broker_id: int, address: str | None) -> bool:
        """Somebody has said which broker of this name has the smallest id; whether that is news.

        Nothing follows for a master, nor for a slave that may not act as master.
        """
        if not self.is_slave or not self._config.enable_slave_acting_master or broker_id == self._smallest:
            return False
        acted, self._smallest = self.is_acting, broker_id
        name = self._config.broker_name
        _log.warning("of broker %s, id %d at %s is the smallest now", name, broker_id, address)
        if self.is_acting:
            _log.warning("broker %s (id %d) acts as master", name, self.broker_id)
        elif acted:
            _log.warning("broker %s (id %d) does not act as master any more", name, self.broker_id)
        if self.is_acting != acted:
            for watcher in self._on_acting:
                watcher(self.is_acting)
        if broker_id != MASTER_ID:
            for by in list(self._said):
                self.update_master(by, None, None)
        return True

    def update_master(self, by: str, address: str | None, ha_address: str | None) -> None:
        """Somebody has said who the master is, None if they know of none; of no interest to a master.

        :param by: who; what the same one said before is forgotten.
        """
        if not self.is_slave:
            return
        self._said.pop(by, None)
        self._said[by] = Master(address, ha_address)
        known = [said for said in self._said.values() if said.address]
        found = known[-1] if known else NO_MASTER
        self._settle(
            Master(found.address, self._config.ha_master_address or found.ha_address or self.master.ha_address)
        )

    def _settle(self, master: Master) -> None:
        if master == self.master:
            return
        if master.address != self.master.address:
            _log.info("the master of %s is %s", self._config.broker_name, master.address or "not there")
        self.master = master
        for watcher in self._watchers:
            watcher(master)
