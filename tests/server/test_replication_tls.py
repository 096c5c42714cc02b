"""Replication over TLS, and slaves that do not read."""

import asyncio
import contextlib
import logging

import pytest

from rocketmq_py.broker import Broker
from rocketmq_py.broker.config.broker_config import SLAVE, configure
from rocketmq_py.protocol.ha import pack_report
from rocketmq_py.server.tls import TlsSettings
from tests.certificates import Authority
from tests.server.pairs import SMALL, Pairs, caught_up, eventually, ha_address
from tests.unit.store.helpers import record


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    pair = Authority(tmp_path_factory.mktemp("certificates")).issue("server")
    return {"tls.server.certPath": str(pair.cert), "tls.server.keyPath": str(pair.key)}


class TlsPairs(Pairs):
    """Brokers with TLS settings."""

    async def started(self, name, tls, **more):
        fixed = {"store_path_root_dir": str(self.work / name), "listen_port": 0}
        broker = Broker(*configure({}, **{**SMALL, **fixed, **more}), tls=None if tls is None else TlsSettings.of(tls))
        await broker.start()
        self.running.append(broker)
        return broker

    running: list


@pytest.fixture
def play(tmp_path):
    def run(scenario):
        async def all_of_it():
            made = TlsPairs(tmp_path)
            made.running = []
            try:
                await scenario(made)
            finally:
                for broker in reversed(made.running):
                    await broker.stop()
                made.caller.close()

        asyncio.run(asyncio.wait_for(all_of_it(), 500))

    return run


def slave_of(master):
    return {"broker_role": SLAVE, "broker_id": 1, "ha_master_address": ha_address(master)}


@pytest.mark.parametrize(
    ("master_mode", "slave"),
    [
        ("permissive", {"tls.enable": "true"}),
        ("permissive", None),
        ("enforcing", {"tls.enable": "true"}),
    ],
)
def test_the_log_is_replicated_with_and_without_tls(play, settings, master_mode, slave, caplog):
    async def scenario(made):
        master = await made.started("master", {**settings, "tls.server.mode": master_mode, "tls.enable": "false"})
        copy = await made.started("slave", slave, **slave_of(master))
        store = master.services.store
        await eventually(lambda: master.services.replication.master.links)
        put_some(store)
        await caught_up(master, copy)
        link = master.services.replication.master.links[0]
        assert (link._transport.get_extra_info("ssl_object") is not None) is (slave is not None)

    play(scenario)
    assert "does not speak TLS" not in caplog.text


def put_some(store):

    for number in range(20):
        store.append(record(body=b"%d" % number))
    store.commit_pending()


def test_an_enforcing_master_disconnects_a_slave_without_tls(play, settings, caplog):
    async def scenario(made):
        master = await made.started("master", {**settings, "tls.server.mode": "enforcing", "tls.enable": "false"})
        reader, writer = await asyncio.open_connection("127.0.0.1", master.services.role.ha_port)
        writer.write(pack_report(0))
        with contextlib.suppress(ConnectionResetError):  # which of the two it is depends on timing
            assert await reader.read() == b""
        writer.close()
        assert master.services.replication.master.links == []

    play(scenario)
    assert "does not use TLS, which this port requires" in caplog.text


def test_a_slave_with_tls_replicates_a_master_without(play, caplog):
    """As with a Java master, whose HA port has no TLS."""

    async def scenario(made):
        master = await made.started("master", None)
        copy = await made.started("slave", {"tls.enable": "true"}, **slave_of(master))
        await eventually(lambda: master.services.replication.master.links)
        put_some(master.services.store)
        await caught_up(master, copy)

    play(scenario)
    assert "does not speak TLS, connecting without" in caplog.text


def test_a_slave_in_enforcing_mode_does_not_fall_back(play, settings, caplog):
    async def scenario(made):
        master = await made.started("master", None)
        copy = await made.started("slave", {**settings, "tls.server.mode": "enforcing"}, **slave_of(master))
        put_some(master.services.store)
        await eventually(lambda: caplog.text.count("the log of the master cannot be fetched"))
        assert copy.services.store.max_physical_offset == 0

    caplog.set_level(logging.WARNING)
    play(scenario)
    assert "connecting without" not in caplog.text


def test_a_slave_that_never_reads_does_not_fill_the_memory_of_its_master(play):
    async def scenario(made):
        master = await made.started("master", None, mapped_file_size_commit_log=1 << 20)
        reader, writer = await asyncio.open_connection("127.0.0.1", master.services.role.ha_port, limit=1024)
        writer.transport.pause_reading()
        put_some(master.services.store)
        writer.write(pack_report(1))
        await eventually(lambda: master.services.replication.master.links)
        link = master.services.replication.master.links[0]
        await eventually(lambda: link.next > 0)
        most = 0

        for _ in range(400):
            for _ in range(8):
                master.services.store.append(record(body=bytes(64 << 10)))
            master.services.store.commit_pending()
            await asyncio.sleep(0)
            most = max(most, link._transport.get_write_buffer_size())
        assert master.services.store.max_physical_offset > 150 << 20
        assert link._is_paused
        assert most < 4 << 20
        writer.close()
        del reader

    play(scenario)
