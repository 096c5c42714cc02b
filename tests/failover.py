"""Clusters of our servers in processes of their own, of which any may be killed and started again where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rocketmq_py.protocol.codes import RequestCode
from tests.interop.javapeer import free_port_block
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import eventually
from tests.server.rawpeer import RawPeer

NAMES = ("broker-a", "broker-b", "broker-c")


@dataclass(slots=True)
class Machines:
    """Several name servers and a broker for each of ``NAMES``, every broker registered at all of them; slaves."""

    servers: OurServers
    store: Path
    flags: tuple[str, ...]
    name_servers: list[OurServer]
    brokers: list[OurServer]
    slaves: list[OurServer]

    @classmethod
    def start(
        cls, servers: OurServers, store: Path, *flags: str, brokers: int = len(NAMES), slaves: int = 0
    ) -> Machines:
        """All of them, brokers with ``flags``, the first with as many slaves as are wanted."""
        machines = cls(servers, store, flags, [servers.namesrv() for _ in NAMES], [], [])
        machines.brokers += [machines._broker(name, str(free_port_block())) for name in NAMES[:brokers]]
        machines.slaves += [machines._slave(name, str(free_port_block())) for name in NAMES[:slaves]]
        return machines

    @property
    def namesrv(self) -> str:
        return ";".join(server.namesrv for server in self.name_servers)

    def kill_name_server(self, number: int) -> None:
        self.name_servers[number].kill()

    def restart_name_server(self, number: int) -> None:
        """Empty, on its port: the brokers tell it everything anew."""
        port = self.name_servers[number].namesrv.rpartition(":")[2]
        self.name_servers[number] = self.servers.namesrv("--port", port)

    def kill_broker(self, number: int) -> None:
        self.brokers[number].kill()

    def restart_broker(self, number: int) -> None:
        """With its store, on its port."""
        port = self.brokers[number].broker.rpartition(":")[2]
        self.brokers[number] = self._broker(NAMES[number], port)

    def restart_slave(self, number: int, topic: str) -> None:
        """In good order, with its store, on its port; until it follows its master and has a topic of it."""
        port = self.slaves[number].broker.rpartition(":")[2]
        self.slaves[number].stop()
        self.slaves[number] = self._slave(NAMES[number], port)
        eventually(lambda: self._follows(number, topic), bool)

    def _follows(self, number: int, topic: str) -> bool:
        with RawPeer(self.brokers[number].broker) as master, RawPeer(self.slaves[number].broker) as slave:
            status = json.loads(master.ask(RequestCode.GET_BROKER_HA_STATUS).body)
            has_topic = slave.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}).code == 0
        return status["inSyncSlaveNums"] == 1 and has_topic

    def _slave(self, name: str, port: str) -> OurServer:
        return self.servers.serve(
            self.store / f"{name}-slave", "--namesrv", self.namesrv, "--name", name, "--port", port, "--role", "SLAVE",
            "--id", "1", slaveReadEnable="true",
        )  # fmt: skip

    def _broker(self, name: str, port: str) -> OurServer:
        return self.servers.serve(
            self.store / name, "--namesrv", self.namesrv, "--name", name, "--port", port, *self.flags,
            slaveReadEnable="true",
        )  # fmt: skip
