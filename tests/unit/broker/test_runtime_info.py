"""The table of runtime information: Java's keys, and where each value comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker import services
from rocketmq_py.broker.runtime_info import _duration, _size
from rocketmq_py.protocol.bodies.route import KvTable
from rocketmq_py.store.fs.filesystem import DiskUsage
from tests.unit.broker.harness import START_MS, InProcess, broker
from tests.unit.broker.requests import pull, send
from tests.unit.store.memoryfs import MemoryFileSystem

RUNTIME_INFO, SEND_V2, PULL = 28, 310, 11


def table(running: InProcess) -> dict[str, str]:
    return KvTable.decode(running.connect().ask(RUNTIME_INFO).body).table


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (999, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (59_999, "[ 0 days, 0 hours, 0 minutes, 59 seconds ]"),
        (60_000, "[ 0 days, 0 hours, 1 minutes, 0 seconds ]"),
        (3_599_000, "[ 0 days, 0 hours, 59 minutes, 59 seconds ]"),
        (3_600_000, "[ 0 days, 1 hours, 0 minutes, 0 seconds ]"),
        (86_399_000, "[ 0 days, 23 hours, 59 minutes, 59 seconds ]"),
        (86_400_000, "[ 1 days, 0 hours, 0 minutes, 0 seconds ]"),
        (93_784_000, "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"),
    ],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert _duration(milliseconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 20, "1.0 MiB"),
        (3 << 29, "1.5 GiB"), (1 << 40, "1.0 TiB"), (3 << 50, "3072.0 TiB"),
    ],
)  # fmt: skip
def test_sizes(count: int, text: str) -> None:
    assert _size(count) == text


def test_the_counts_are_those_of_the_traffic(running: InProcess) -> None:
    client = running.connect()
    running.turn()
    empty = table(running)
    assert (empty["putMessageTimesTotal"], empty["putMessageSizeTotal"], empty["putMessageAverageSize"]) == (
        "1", "0", "0.0",
    )  # fmt: skip
    for _ in range(4):
        client.ask(SEND_V2, send(), bytes(100))
    for offset in (0, 0, 4):
        client.ask(PULL, pull(offset=offset))
    running.turn(1_000)
    found = table(running)
    grown = running.services.store.max_physical_offset
    assert (found["putMessageTimesTotal"], found["putMessageSizeTotal"]) == ("4", str(grown))
    assert float(found["putMessageAverageSize"]) == grown / 4
    rates = {"putTps": "4.0", "getTransferredTps": "8.0", "getFoundTps": "2.0", "getMissTps": "1.0",
             "getTotalTps": "3.0"}  # fmt: skip
    assert {name: found[name].split()[0] for name in rates} == rates
    assert (found["msgPutTotalTodayNow"], found["msgGetTotalTodayNow"]) == ("4", "8")
    for day in (running.services.stats.put_day, running.services.stats.got_day):
        day.begin()
        day.begin()
    found = table(running)
    names = ("PutTotalYesterdayMorning", "PutTotalTodayMorning", "GetTotalYesterdayMorning", "GetTotalTodayMorning")
    assert [found[f"msg{name}"] for name in names] == ["4", "4", "8", "8"]


@pytest.mark.parametrize(
    ("used", "free", "ratio"),
    [(0, 100, "0.0"), (100, 900, "0.1"), (101, 900, "0.11"), (999, 1, "1.0"), (1, 999, "0.01")],
)
def test_the_disk_is_shown_in_whole_percents_rounded_up(tmp_path: Path, used: int, free: int, ratio: str) -> None:
    fs = MemoryFileSystem()
    fs.disk_usage = lambda _: DiskUsage(5 << 10, used, free)  # type: ignore[method-assign]
    with broker(tmp_path, fs=fs, store={"timer_wheel_enable": False}) as running:
        running.connect().ask(SEND_V2, send(), bytes(3_000))
        found = table(running)
        end = running.services.store.max_physical_offset
        assert found["commitLogDiskRatio"] == found["consumeQueueDiskRatio"] == ratio
        assert found[f"commitLogDiskRatio_{tmp_path / 'commitlog'}"] == ratio
        assert found["commitLogDirCapacity"] == f"Total : 5.0 KiB, Free : {free} B."
        assert (found["commitLogMinOffset"], found["commitLogMaxOffset"]) == ("0", str(end))
        assert found["earliestMessageTimeStamp"] == str(START_MS)


def test_bytes_that_are_not_on_disk_yet_are_shown(running: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    store = running.services.store
    running.connect().ask(SEND_V2, send(), bytes(100))
    end = store.max_physical_offset
    for flushed, text in ((end - 70, "70 B"), (end, "0 B"), (end + 5, "0 B")):
        monkeypatch.setattr(type(store), "flushed_offset", flushed)
        assert table(running)["remainHowManyDataToFlush"] == text


@pytest.mark.parametrize(
    ("settings", "smallest", "active"),
    [({}, None, "true"), ({"broker_role": "SLAVE", "broker_id": 1}, None, "false"),
     ({"broker_role": "SLAVE", "broker_id": 1, "enable_slave_acting_master": True}, 1, "true")],
)  # fmt: skip
def test_a_broker_is_active_if_it_acts_as_master(
    tmp_path: Path, settings: dict[str, Any], smallest: int | None, active: str
) -> None:
    with broker(tmp_path, start_accept_send_request_time_stamp=7, **settings) as running:
        if smallest is not None:
            running.services.role.update_smallest_id(smallest, "s:1")
        running.now += 61_000
        found = table(running)
        assert found["brokerActive"] == active
        assert (found["bootTimestamp"], found["startAcceptSendRequestTimeStamp"]) == (str(START_MS), "7")
        assert found["runtime"] == "[ 0 days, 0 hours, 1 minutes, 1 seconds ]"


def test_lanes_have_the_capacity_of_the_settings_and_no_queue(tmp_path: Path) -> None:
    with broker(
        tmp_path, send_thread_pool_queue_capacity=1, pull_thread_pool_queue_capacity=2,
        query_thread_pool_queue_capacity=3, ack_thread_pool_queue_capacity=4, end_transaction_pool_queue_capacity=5,
    ) as running:  # fmt: skip
        found = table(running)
    names = ("send", "pull", "query", "ack", "EndTransaction")
    assert [found[f"{name}ThreadPoolQueueCapacity"] for name in names] == ["1", "2", "3", "4", "5"]
    for name in ("send", "pull", "litePull", "query", "ack"):
        assert found[f"{name}ThreadPoolQueueSize"] == found[f"{name}ThreadPoolQueueHeadWaitTimeMills"] == "0"
    assert found["EndTransactionQueueSize"] == "0"


def test_long_turns_of_the_loop_are_shown(running: InProcess) -> None:
    assert table(running)["slowTurns"] == "0"
    running.services.slow_turns.note("a job", 1.5)
    running.services.slow_turns.turn_ended(1.5, 1.5)
    found = table(running)
    assert (found["slowTurns"], found["slowestTurnMillis"], found["slowestTurn"]) == ("1", "1500", "a job")


def test_timed_and_delayed_messages_that_wait_are_shown(running: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    client = running.connect()
    for _ in range(2):
        client.ask(SEND_V2, send(properties={"TIMER_DELIVER_MS": str(running.now + 60_000)}), b"timed")
        client.ask(SEND_V2, send(properties={"DELAY": "1"}), b"delayed")
        client.ask(SEND_V2, send(properties={"DELAY": "3"}), b"delayed")
    assert table(running)["timerOffsetBehind"] == "2"
    for _ in range(15):
        running.turn(100)
    found = table(running)
    assert (found["timerCongestNum"], found["timerOffsetBehind"]) == ("2", "0")
    assert (found["scheduleMessageOffset_1"], found["scheduleMessageOffset_3"]) == ("2,2", "0,2")
    assert found["timerDequeueTps"] == "0.0"
    monkeypatch.setattr(type(running.services.timers), "behind_ms", 2_999)
    assert table(running)["timerReadBehind"] == "2"


def test_what_is_not_measured_has_the_value_of_an_idle_broker(running: InProcess) -> None:
    found = table(running)
    assert found["remainTransientStoreBufferNumbs"] == "2147483647"
    assert (found["dispatchBehindBytes"], found["EndTransactionQueueSize"]) == ("0", "0")


def test_how_long_the_store_took_is_told(running: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([1.0, 1.0309])
    monkeypatch.setattr(services, "monotonic", lambda: next(seconds))
    client = running.connect()
    client.ask(SEND_V2, send(), b"x")
    monkeypatch.setattr(services, "monotonic", lambda: 2.0)
    client.ask(SEND_V2, send(), b"x")
    found = table(running)
    assert (found["putLatency99"], found["putMessageDistributeTime"], found["putMessageEntireTimeMax"]) == (
        "0.00", "null", "30",
    )  # fmt: skip
    running.turn(60_000)
    running.turn(1_000)
    found = table(running)
    assert found["putMessageDistributeTime"].startswith("[<=0ms]:1 [0~10ms]:0 [10~50ms]:1 [50~100ms]:0 ")
    assert (found["putLatency99"], found["putLatency999"]) == ("1.00", "1.00")


@pytest.mark.parametrize("count", [1, 2])
def test_the_average_size_is_that_of_all_messages(running: InProcess, count: int) -> None:
    running.turn()
    table(running)
    for _ in range(count):
        running.connect().ask(SEND_V2, send(), bytes(100))
    running.turn(1_000)
    assert float(table(running)["putMessageAverageSize"]) == running.services.store.max_physical_offset / count


def test_the_size_of_messages_is_that_of_those_since_the_start(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        assert running.connect().ask(SEND_V2, send(), bytes(100)).code == 0
    with broker(tmp_path) as running:
        before = running.services.store.max_physical_offset
        assert table(running)["putMessageSizeTotal"] == "0"
        assert running.connect().ask(SEND_V2, send(), bytes(500)).code == 0
        assert int(table(running)["putMessageSizeTotal"]) == running.services.store.max_physical_offset - before > 500


EXPORTED_NUMBERS = (
    "msgPutTotalTodayNow", "sendThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueHeadWaitTimeMills",
    "msgGetTotalTodayNow", "queryThreadPoolQueueSize", "bootTimestamp", "msgPutTotalYesterdayMorning",
    "msgGetTotalYesterdayMorning", "pullThreadPoolQueueSize", "commitLogMinOffset",
    "pullThreadPoolQueueHeadWaitTimeMills", "dispatchMaxBuffer", "brokerVersion", "pageCacheLockTimeMills",
    "commitLogMaxOffset", "getMessageEntireTimeMax", "msgPutTotalTodayMorning", "putMessageTimesTotal",
    "msgGetTotalTodayMorning", "sendThreadPoolQueueSize", "startAcceptSendRequestTimeStamp",
    "putMessageEntireTimeMax", "earliestMessageTimeStamp", "remainTransientStoreBufferNumbs",
    "queryThreadPoolQueueCapacity", "dispatchBehindBytes", "putMessageSizeTotal", "sendThreadPoolQueueCapacity",
    "pullThreadPoolQueueCapacity",
)  # fmt: skip
"""What Apache's rocketmq-exporter reads as integers; it shows nothing of a broker that lacks one."""


def test_the_legacy_exporter_finds_everything_that_it_reads(running: InProcess) -> None:
    running.connect().ask(SEND_V2, send(properties={"DELAY": "1"}), b"delayed")
    running.turn(1_000)
    found = table(running)
    assert all(-(2**63) <= int(found[name]) < 2**63 for name in EXPORTED_NUMBERS)
    for name in (
        "consumeQueueDiskRatio",
        "commitLogDiskRatio",
        "putMessageAverageSize",
        "putLatency99",
        "putLatency999",
    ):
        float(found[name])
    float(found["remainHowManyDataToFlush"].split(" ")[0])
    for name in ("putTps", "getMissTps", "getTransferredTps", "getTotalTps", "getFoundTps"):
        assert len([float(part) for part in found[name].split(" ")]) == 3
    words = found["commitLogDirCapacity"].split(" ")
    for number, unit in ((words[2], words[3]), (words[6], words[7])):
        assert float(number) >= 0
        assert unit[:-1] in ("B", "KiB", "MiB", "GiB", "TiB")
    for name, value in found.items():
        if name.startswith("scheduleMessageOffset"):
            int(value.split(",")[0]), int(value.split(",")[1])
    assert found["putMessageDistributeTime"] == "null"
    running.turn(60_000)
    shown = {}
    for part in table(running)["putMessageDistributeTime"].split(" "):
        name, _, count = part.partition(":")
        if count:
            shown[name.replace("[", "").replace("]", "")] = int(count)
    assert shown.keys() >= {"<=0ms", "0~10ms", "10~50ms", "500ms~1s", "10s~"}
    assert sum(shown.values()) == 1
    assert {"runtime", "brokerVersionDesc"} <= found.keys()
