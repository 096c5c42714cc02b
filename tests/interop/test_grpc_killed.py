"""A broker that is killed under Apache's gRPC client: nothing acknowledged is lost, message groups keep their order."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from rocketmq_py import Admin
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from tests.interop.foreign_builds import PROGRAMS
from tests.interop.javapeer import free_port_block
from tests.interop.ours import OurServer, OurServers
from tests.interop.test_grpc_clients import python

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

KILLS = 4
BETWEEN = 300
"""Messages received between two kills."""


class Program:
    """The client, and what it says."""

    def __init__(self, endpoint: str, prefix: str, log: Path) -> None:
        command = [python()[0], str(PROGRAMS / "grpc-python" / "steady.py"), endpoint, prefix]
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self.sent: list[str] = []
        self.got: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                row = json.loads(line)
                with self._changed:
                    (self.sent if row["step"] == "sent" else self.got).append(row["body"])
                    self._changed.notify_all()

    def wait_for(self, more: int) -> None:
        """Wait until so many more messages have come."""
        with self._changed:
            wanted = len(self.got) + more
            assert self._changed.wait_for(lambda: len(self.got) >= wanted, 240), f"{len(self.got)} of {wanted}"

    def end(self) -> None:
        """Stop sending, and wait until all has come."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.wait(400) == 0
        self._reader.join()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def first_deliveries(bodies: list[str]) -> dict[str, list[int]]:
    """The numbers of each message group in the order in which they came first."""
    found: dict[str, list[int]] = defaultdict(list)
    for body in dict.fromkeys(bodies):
        mode, lane, number = body.split()
        if mode == "fifo":
            found[lane].append(int(number))
    return found


def test_nothing_acknowledged_is_lost_and_groups_keep_their_order(servers: OurServers, tmp_path: Path) -> None:
    port, prefix = free_port_block(), "killed"

    def start() -> OurServer:
        flags = ["--namesrv-port", str(port), "--port", str(port + 1)]
        return servers.serve(tmp_path / "store", *flags, flushDiskType="SYNC_FLUSH")

    server = start()
    with Admin(server.namesrv) as admin:
        # The client asks one queue after the other and waits at each that is empty: message groups get one queue.
        for mode, kind, queues in (("normal", "NORMAL", 4), ("fifo", "FIFO", 1)):
            admin.create_topic(f"{prefix}-{mode}", queues, attributes={"message.type": kind})
            admin.create_group(
                SubscriptionGroupConfig(group_name=f"{prefix}-g-{mode}", consume_message_orderly=mode == "fifo")
            )
    program = Program(server.broker, prefix, tmp_path / "client.log")
    try:
        for _ in range(KILLS):
            program.wait_for(BETWEEN)
            server.kill()
            server = start()
        program.wait_for(BETWEEN)
        program.end()
    finally:
        program.kill()
    assert set(program.sent) <= set(program.got)
    lanes = first_deliveries(program.got)
    assert len(lanes) == 4
    assert all(numbers == sorted(numbers) for numbers in lanes.values()), lanes
