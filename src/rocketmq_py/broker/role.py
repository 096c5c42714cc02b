"""What this broker is to the others of its name: a master, or a slave and whose.

Knows the configured role and what has been said of the master, by name servers or anybody else. Refuses to know how a
log is replicated, who asks the master for what, and sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.broker.config import BrokerConfig

_log = logging.getLogger(__name__)


class Master(NamedTuple):
    """Where a slave finds its master; None where nobody has said so.

    :param address: for requests. :param ha_address: for the bytes of its log.
    """

    address: str | None = None
    ha_address: str | None = None


NOBODY = Master()


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
        self.master = Master(None, config.ha_master_address or None) if self.is_slave else NOBODY
        """The master as it is known now. A master's own is :data:`NOBODY`."""

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

    def watch(self, watcher: Callable[[Master], None]) -> None:
        """Have ``watcher`` called with the master now, and whenever another or none is known."""
        self._watchers.append(watcher)
        watcher(self.master)

    def told(self, by: str, address: str | None, ha_address: str | None) -> None:
        """Somebody has said who the master is, None if they know of none; of no interest to a master.

        :param by: who; what the same one said before is forgotten.
        """
        if not self.is_slave:
            return
        self._said.pop(by, None)
        self._said[by] = Master(address, ha_address)
        known = [said for said in self._said.values() if said.address]
        found = known[-1] if known else NOBODY
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
