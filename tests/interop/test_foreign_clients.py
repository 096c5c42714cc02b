"""Clients in other languages, and old ones, on our servers: what clients/results.toml says of them is what they do."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.foreign import Client, Run, clients
from tests.interop.foreign_modes import DELAY_LEVELS, JUDGES
from tests.interop.javapeer import free_port_block
from tests.interop.ours import OurServer, OurServers

SETTINGS = {
    "messageDelayLevel": DELAY_LEVELS, "enablePropertyFilter": "true", "transactionCheckInterval": 3000,
    "transactionTimeOut": 5000, "brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": 60_000,
}  # fmt: skip
"""A busy broker refuses sends, and clients do not repeat asynchronous ones: the load of the machine must not decide."""
SECONDS = 120.0
"""How long a mode that works may take: some clients look for new queues every 20 s only, or for routes every 30 s."""
QUICK = [client for client in clients() if client.quick]
SLOW = [client for client in clients() if not client.quick]


@dataclass(slots=True)
class Restartable:
    """Our servers on fixed ports, which are killed and started again on the same store."""

    servers: OurServers
    store: Path
    port: int

    def start(self) -> OurServer:
        flags = ["--namesrv-port", str(self.port), "--port", str(self.port + 1)]
        return self.servers.serve(self.store, *flags, **SETTINGS)


def here(client: Client) -> Client:
    """The client, or the end of the test where its tools are missing; Java is everywhere these tests run."""
    reason = client.missing()
    if reason is not None:
        pytest.skip(f"{client.name}: {reason}")
    client.command()
    return client


def seen(some: list[Client], machine: Restartable, work: Path) -> dict[str, dict[str, str]]:
    """What each mode of each client lacks: all clients at once, then the servers are killed under them."""
    server = machine.start()
    with ExitStack() as stack, ThreadPoolExecutor(len(some)) as pool:
        runs = [
            stack.enter_context(Run(client, server.namesrv, f"f{uuid.uuid4().hex[:8]}", work / client.name))
            for client in some
        ]
        found = {
            run.client.name: done
            for run, done in zip(
                runs, pool.map(lambda run: run.verdicts(run.before_restart, SECONDS), runs), strict=True
            )
        }
        server.kill()
        for run in runs:
            run.add({"mode": "steady", "kind": "restarted"})
        machine.start()
        for run, done in zip(runs, pool.map(lambda run: run.verdicts(("steady",), SECONDS), runs), strict=True):
            found[run.client.name] |= done
        for run in runs:
            run.end()
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Restartable]:
    servers = OurServers(tmp_path)
    yield Restartable(servers, tmp_path / "store", free_port_block())
    servers.close()


def recorded(client: Client, found: dict[str, str]) -> dict[str, str]:
    """What was found, in the words of the record: a mode that fails there needs to fail only, in whatever words."""
    return {mode: client.modes[mode] if client.modes[mode] and lacking else lacking for mode, lacking in found.items()}


def test_quick_clients(machine: Restartable, tmp_path: Path) -> None:
    some = [client for client in QUICK if client.missing() is None]
    if os.environ.get("CI") == "true":
        assert {"Java", "C++"} <= {client.language for client in some}
    found = seen([here(client) for client in some], machine, tmp_path)
    assert {client.name: recorded(client, found[client.name]) for client in some} == {
        client.name: client.modes for client in some
    }


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("client", SLOW, ids=lambda client: client.name)
def test_a_slow_client(client: Client, machine: Restartable, tmp_path: Path) -> None:
    found = seen([here(client)], machine, tmp_path)
    assert recorded(client, found[client.name]) == client.modes


def test_every_mode_of_the_record_has_a_judge() -> None:
    assert {mode for client in clients() for mode in client.modes} == set(JUDGES)
