"""A master and its slaves: replicated bytes, waiting sends, and lost connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.broker import wall_clock
from rocketmq_py.broker.config.broker_config import SYNC_MASTER
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.ha import PieceReader, pack_report
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command
from tests.server.pairs import FILE, SECONDS, Pairs, caught_up, eventually, files, ha_address, log_end, pairs


@pytest.fixture
def play(tmp_path):
    """Plays a scenario with brokers that end with it."""

    def run(scenario: Callable[[Pairs], Awaitable[None]]) -> Path:
        async def whole() -> None:
            async with pairs(tmp_path) as made:
                await scenario(made)

        asyncio.run(whole())
        return tmp_path

    return run


def test_the_files_of_a_slave_equal_those_of_its_master(play) -> None:
    async def scenario(made: Pairs) -> None:
        master = await made.broker("master")
        slave = await made.slave_of(master)
        await made.send(master, b"first")
        await caught_up(master, slave)
        await made.load(master)
        await caught_up(master, slave)
        assert log_end(master) > 2 * FILE
        await slave.stop()
        await made.load(master, rounds=1)
        await caught_up(master, await made.slave_of(master))

    work = play(scenario)
    for folder in ("commitlog", "consumequeue"):
        assert files(work / "slave", folder) == files(work / "master", folder)
    assert not (work / "slave" / "abort").exists()


def test_a_sync_master_waits_for_the_configured_number_of_slaves(play) -> None:
    async def scenario(made: Pairs) -> None:
        master = await made.broker("master", broker_role=SYNC_MASTER, in_sync_replicas=3, slave_timeout=300)
        one = await made.slave_of(master, "one")
        await eventually(lambda: len(master.services.replication.master.links) == 1)
        late = await made.send(master, b"late")
        assert late.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert late.ext["queueOffset"] == "0"
        assert (await made.send(master, b"hurried", properties="WAIT\x01false\x02")).code == 0
        two = await made.slave_of(master, "two", 2)
        await caught_up(master, one, two)
        master.config.slave_timeout = 60_000
        answers = await asyncio.gather(*(made.send(master, b"%d" % i) for i in range(50)))
        assert {answer.code for answer in answers} == {0}
        assert log_end(one) == log_end(two) == log_end(master)
        await two.stop()
        master.config.slave_timeout = 1
        assert (await made.send(master, b"now")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT

    play(scenario)


def test_with_acting_slaves_sends_need_enough_replicas(play) -> None:
    async def scenario(made: Pairs) -> None:
        master = await made.broker(
            "master", broker_role=SYNC_MASTER, in_sync_replicas=2, total_replicas=2, enable_slave_acting_master=True,
            slave_timeout=60_000,
        )  # fmt: skip
        config, role = master.config, master.services.role
        batch = encode_batch([(0, b"b", b"KEYS\x01b")])

        async def refused(**send: Any) -> bool:
            before = log_end(master)
            answer = await made.send(master, **{"content": b"m", **send})
            assert (answer.code == 0) == (log_end(master) > before), answer
            return (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")

        assert await refused()
        assert await refused(content=batch, topic="B", code=Code.SEND_BATCH_MESSAGE)
        assert not await refused(properties="WAIT\x01false\x02")
        config.enable_auto_in_sync_replicas = True
        assert not await refused(), "the master alone will do"
        config.min_in_sync_replicas = 2
        assert await refused()
        slave = await made.slave_of(master)
        await caught_up(master, slave)
        assert not await refused()
        assert log_end(slave) == log_end(master)
        role.alive_replicas = 1
        assert await refused(), "name servers have lost sight of the slave"
        role.alive_replicas = 2
        config.ha_max_gap_not_in_sync = 0
        assert await refused(), "the slave is too far behind"

    play(scenario)


def test_a_send_waits_for_the_replicas_required_when_it_arrived(play) -> None:
    """The next may be answered before it, since fewer will do by then."""

    async def scenario(made: Pairs) -> None:
        master = await made.broker("master", broker_role=SYNC_MASTER, in_sync_replicas=2, slave_timeout=600_000)
        first = asyncio.create_task(made.send(master, b"first"))
        await eventually(lambda: len(master.services.waiting_sends) == 1)
        master.config.in_sync_replicas = 1
        assert (await made.send(master, b"second")).code == 0
        assert not first.done()
        await made.slave_of(master)
        assert (await first).code == 0

    play(scenario)


def test_a_slave_ahead_of_its_master_is_disconnected(play, caplog) -> None:
    async def scenario(made: Pairs) -> None:
        other = await made.broker("other")
        slave = await made.slave_of(other)
        await made.send(other, bytes(5000))
        await caught_up(other, slave)
        master = await made.broker("master")
        await made.send(master, b"something else")
        slave.services.replication.slave.follow(ha_address(master))
        await eventually(lambda: [r for r in caplog.records if "has lost, and gets nothing" in r.message])
        before = log_end(slave)
        await made.send(master, bytes(20_000))
        slave.services.replication.slave.follow(ha_address(other))
        await made.send(other, b"more")
        await caught_up(other, slave)
        assert log_end(slave) > before

    play(scenario)


def test_the_master_logs_once_that_the_offset_of_a_slave_has_expired(play, caplog) -> None:
    async def scenario(made: Pairs) -> None:
        master = await made.broker("master")
        slave = await made.slave_of(master)
        await made.send(master, b"first")
        await caught_up(master, slave)
        await slave.stop()
        await made.load(master, rounds=1)
        log = master.services.store._commit_log
        log.remove(log.starts[0])
        slave = await made.slave_of(master, ha_send_heartbeat_interval=50)
        told = "older files have expired"
        await eventually(lambda: [r for r in caplog.records if told in r.message])
        before = slave.services.replication.slave.written_ms
        await eventually(lambda: slave.services.replication.slave.written_ms > before)
        assert slave.services.replication.slave.is_connected
        assert len([r for r in caplog.records if told in r.message]) == 1

    play(scenario)


def test_a_slave_reconnects_to_its_master(play, caplog) -> None:
    async def scenario(made: Pairs) -> None:
        master = await made.broker("master")
        slave = await made.slave_of(master)
        await made.send(master, b"first")
        await caught_up(master, slave)
        port = master.services.role.ha_port
        await master.stop()
        await eventually(lambda: [r for r in caplog.records if "cannot be fetched" in r.message])
        master = await made.broker("master", ha_listen_port=port)
        await made.send(master, b"second")
        await caught_up(master, slave)
        assert [r.message for r in caplog.records if "again" in r.message and "fetched from" in r.message]

    play(scenario)


def test_flow_control_limits_the_transfer(play) -> None:
    """So many bytes go to a slave within a second; it ends when the test says so."""

    async def scenario(made: Pairs) -> None:
        now, limit = [1_700_000_000_000], 100_000
        master = await made.broker(
            "master", lambda: now[0], ha_flow_control_enable=True, max_ha_transfer_byte_in_second=limit
        )
        slave = await made.slave_of(master)
        await made.send(master, b"first")
        await caught_up(master, slave)
        await made.load(master)
        assert log_end(master) > limit
        await eventually(lambda: log_end(slave) == limit)
        while log_end(slave) < log_end(master):
            now[0] += 1000
            following = min(log_end(slave) + limit, log_end(master))
            await eventually(lambda following=following: log_end(slave) == following)

    play(scenario)


def test_a_draining_master_stops_when_its_slave_has_everything(play) -> None:
    async def scenario(made: Pairs) -> None:
        stands_at = [wall_clock()]  # flow control lets nothing more go out until the clock goes on
        master = await made.broker(
            "master", lambda: stands_at[0] or wall_clock(), ha_flow_control_enable=True,
            max_ha_transfer_byte_in_second=10_000, enable_shutdown_gracefully=True, shutdown_wait_time_seconds=60,
        )  # fmt: skip
        slave = await made.slave_of(master)
        await made.send(master, b"first")
        await caught_up(master, slave)
        await made.load(master, rounds=1)
        end = log_end(master)
        assert log_end(slave) + 50_000 < end, "held back for longer than an end without draining waits"
        stands_at[0] = 0
        await master.stop()
        assert log_end(slave) == end

    play(scenario)


def test_a_stalled_slave_does_not_block_the_stop_of_its_master(play, caplog) -> None:
    async def scenario(made: Pairs) -> None:
        master = await made.broker("master")
        await made.send(master, b"first")
        begin = log_end(master)
        _, writer = await asyncio.open_connection("127.0.0.1", master.services.role.ha_port)
        writer.write(pack_report(begin))
        await eventually(lambda: master.services.replication.master.acknowledged_offset(1) == begin)
        await made.send(master, b"second")
        lacks = log_end(master) - begin
        await master.stop()
        writer.close()
        assert [r for r in caplog.records if f"lacks the last {lacks} bytes" in r.message]

    play(scenario)


def test_tools_see_master_and_slave(play) -> None:
    async def scenario(made: Pairs) -> None:
        master = await made.broker("master")
        slave = await made.slave_of(master)
        await made.send(master, b"first")
        await caught_up(master, slave)
        end = log_end(master)

        async def ask(address: str, code: Code, **ext: str) -> dict[str, object]:
            answer = await made.caller.invoke(address, Command(code, ext=ext), SECONDS)
            assert answer.code == 0, answer
            return json.loads(answer.body) if answer.body else answer.ext

        told = await ask(master.address, Code.GET_BROKER_HA_STATUS)
        [connection] = told.pop("haConnectionInfo")
        assert told["master"] is True
        assert (told["masterCommitLogMaxOffset"], told["inSyncSlaveNums"]) == (end, 1)
        assert {key: connection[key] for key in ("slaveAckOffset", "diff", "inSync", "transferFromWhere")} == {
            "slaveAckOffset": end, "diff": 0, "inSync": True, "transferFromWhere": end,
        }  # fmt: skip
        told = await ask(slave.address, Code.GET_BROKER_HA_STATUS)
        assert (told["master"], told["haConnectionInfo"]) == (False, [])
        assert told["haClientRuntimeInfo"]["maxOffset"] == end
        assert told["haClientRuntimeInfo"]["masterAddr"] == ha_address(master)
        told = await ask(master.address, Code.EXCHANGE_BROKER_HA_INFO)
        assert told == {
            "masterHaAddress": ha_address(master),
            "masterFlushOffset": "0",
            "masterAddress": master.address,
        }
        assert not await ask(slave.address, Code.EXCHANGE_BROKER_HA_INFO)

    play(scenario)


def test_replication_frames_follow_the_protocol(play) -> None:
    """Reports of any cut; the begin of the newest file for who has nothing; heartbeats; an end for who is silent."""

    async def scenario(made: Pairs) -> None:
        master = await made.broker("master", ha_send_heartbeat_interval=1, ha_transfer_batch_size=1000)
        await made.load(master, rounds=2)
        begin, end = log_end(master) // FILE * FILE, log_end(master)
        reader, writer = await asyncio.open_connection("127.0.0.1", master.services.role.ha_port)
        for byte in pack_report(0):
            writer.write(bytes([byte]))
            await writer.drain()
        pieces, received, beats = PieceReader(), bytearray(), 0
        while beats < 2:
            for offset, piece in pieces.feed(await reader.read(777)):
                assert offset == begin + len(received)
                received += piece
                beats += not piece
        assert received == bytes(master.services.store.log_view(begin, end - begin))
        writer.write(pack_report(begin) + pack_report(end)[:3])
        await eventually(lambda: master.services.replication.master.acknowledged_offset(1) == begin)
        writer.write(pack_report(end)[3:])
        await eventually(lambda: master.services.replication.master.acknowledged_offset(1) == end)
        master.config.ha_housekeeping_interval = 1
        await reader.read()
        assert master.services.replication.master.links == []
        writer.close()

    play(scenario)


def test_a_slave_follows_a_topic_that_is_deleted_and_created_again(play) -> None:
    async def scenario(made: Pairs) -> None:
        master = await made.broker("master")
        slave = await made.slave_of(master)
        for number in range(5):
            await made.send(master, b"old %d" % number)
        await caught_up(master, slave)
        deleted = Command(Code.DELETE_TOPIC_IN_BROKER, ext={"topic": "T"})
        assert (await made.caller.invoke(master.address, deleted, SECONDS)).code == 0
        for number in range(3):
            assert (await made.send(master, b"new %d" % number)).ext["queueOffset"] == str(number)
        await caught_up(master, slave)
        both = [broker.services.store for broker in (master, slave)]
        assert [store.queue_range("T", 0) for store in both] == [(0, 3), (0, 3)]
        assert both[1].get("T", 0, 0, 32).body == both[0].get("T", 0, 0, 32).body
        await slave.stop()
        again = await made.slave_of(master)
        await caught_up(master, again)
        assert again.services.store.queue_range("T", 0) == (0, 3)

    play(scenario)
