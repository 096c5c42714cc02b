"""Clusters of our servers in processes of their own, of which any may be killed and started again where it was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.interop.javapeer import free_port_block
from tests.interop.ours import OurServer, OurServers

NAMES = ("broker-a", "broker-b", "broker-c")


@dataclass(slots=True)
class Machines:
    """Several name servers and a broker for each of ``NAMES``, every broker registered at all of them."""

    servers: OurServers
    store: Path
    flags: tuple[str, ...]
    name_servers: list[OurServer]
    brokers: list[OurServer]

    @classmethod
    def start(cls, servers: OurServers, store: Path, *flags: str, brokers: int = len(NAMES)) -> Machines:
        """All of them, brokers with ``flags``."""
        machines = cls(servers, store, flags, [servers.namesrv() for _ in NAMES], [])
        machines.brokers += [machines._broker(name, str(free_port_block())) for name in NAMES[:brokers]]
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

    def _broker(self, name: str, port: str) -> OurServer:
        return self.servers.serve(
            self.store / name, "--namesrv", self.namesrv, "--name", name, "--port", port, *self.flags
        )
