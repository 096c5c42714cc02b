"""Damaged records of a running broker come back from its slave, and those of a slave from its master."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from rocketmq_py.broker import Broker
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.record import decode_records
from tests.server.pairs import log_end
from tests.server.test_broker import ask, make, name_server, pull_command, send_command, until

COUNT, GARBAGE, BIT = 600, 2_000, 20_044


def log_of(broker: Broker) -> list[Path]:
    return sorted((Path(broker.config.store_path_root_dir) / "commitlog").iterdir())


def content(broker: Broker) -> bytes:
    return b"".join(path.read_bytes() for path in log_of(broker))


def damage(path: Path) -> None:
    """Garbage over several records, and one bit of the body of another one."""
    with path.open("r+b") as file:
        file.seek(5_000)
        file.write(random.Random(5).randbytes(GARBAGE))
        file.seek(BIT)
        [byte] = file.read(1)
        file.seek(BIT)
        file.write(bytes([byte ^ 8]))


class Pair:
    """A master and a slave with the same log of several files."""

    def __init__(self, stack: AsyncExitStack, root: Path, namesrv: str) -> None:
        self._stack = stack
        self._root = root
        self.namesrv = namesrv
        self.caller = RpcClient()

    async def start(self) -> None:
        self.master = make(self._root / "master", self.namesrv)
        self.slave = make(self._root / "slave", self.namesrv, broker_role="SLAVE", broker_id=1)
        for broker in (self.master, self.slave):
            await broker.start()
            self._stack.push_async_callback(broker.stop)


@asynccontextmanager
async def pair(root: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(name_server())
        made = Pair(stack, root, server.address)
        await made.start()
        for number in range(COUNT):
            command = send_command()
            command.body = b"%03d" % number * 50
            assert (await ask(made.caller, made.master.address, command)).code == 0
        await until(lambda: log_end(made.slave) == log_end(made.master))
        yield made
        made.caller.close()


@pytest.mark.parametrize("role", ["master", "slave"])
async def test_the_check_of_a_store_heals_what_another_broker_has(
    tmp_path: Path, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(tmp_path) as both:
        broker: Broker = getattr(both, role)
        before = content(broker)
        damage(log_of(broker)[0])
        assert content(broker) != before
        broker.services.store.config.scrub_bytes_per_second = 1 << 30
        await until(lambda: broker.services.scrubber.counts.passes)
        assert content(broker) == before
        counts = broker.services.scrubber.counts
        assert (counts.damages, counts.entries_rebuilt) == (2, 0)
        assert counts.records_healed > 5
    assert "the commit log is healed from " in caplog.text


async def test_what_a_pull_meets_is_healed_although_nothing_checks_the_store(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await both.master.stop()  # what it wrote itself it would not check
        before = content(both.master)
        damage(log_of(both.master)[0])
        await both.master.start()
        first = await ask(both.caller, both.master.address, pull_command(0))
        assert len(decode_records(first.body)) < 32
        assert "damaged" in first.ext
        await until(lambda: both.master.services.scrubber.counts.records_healed)
        again = await ask(both.caller, both.master.address, pull_command(0))
        assert [message.queue_offset for message in decode_records(again.body)] == list(range(32))
        assert "damaged" not in again.ext
        await until(lambda: content(both.master) == before)


async def test_a_broker_with_another_log_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with pair(tmp_path) as both:
        alone = make(tmp_path / "other")
        await alone.start()
        for number in range(90):
            command = send_command()
            command.body = b"%04d" % number * 40
            assert (await ask(both.caller, alone.address, command)).code == 0
        await alone.stop()
        role = {"broker_role": "SLAVE", "broker_id": 2, "ha_master_address": "127.0.0.1:9"}
        other = make(tmp_path / "other", both.namesrv, **role)
        await other.start()
        await both.slave.stop()
        damage(log_of(both.master)[0])
        damaged = content(both.master)
        both.master.services.store.config.scrub_bytes_per_second = 1 << 30
        await until(lambda: both.master.services.scrubber.counts.passes)
        assert content(both.master) == damaged
        assert both.master.services.scrubber.counts.records_healed == 0
        await other.stop()
