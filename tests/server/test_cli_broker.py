"""``rocketmq broker`` on brokers of ours: their settings are shown and changed, their slaves are seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.cli.output.failures import Status
from rocketmq_py.testing import Cluster
from tests.server.cli import Cli
from tests.server.pairs import caught_up, pairs


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def cli(cluster: Cluster) -> Cli:
    return Cli(cluster.namesrv)


def test_settings_are_shown(cli: Cli) -> None:
    every = cli.json("broker", "settings", "broker-a")
    assert every["fileReservedTime"] == "72"
    assert list(every) == sorted(every)
    some = cli.json("broker", "settings", "broker-a", "DISK*ratio", "brokername")
    assert {"diskMaxUsedSpaceRatio", "brokerName"} <= some.keys() < every.keys()
    assert "brokerName  broker-a" in cli.ok("broker", "settings", "broker-a:0", "brokerName")
    nothing = cli("broker", "settings", "broker-a", "nosuch*")
    assert (nothing.exit_code, "no setting nosuch*" in nothing.stderr) == (Status.NOT_FOUND, True)


def test_settings_are_changed(cli: Cli) -> None:
    assert cli.ok("broker", "set", "broker-a", "fileReservedTime=48", "deleteWhen=03") == (
        "fileReservedTime=48\ndeleteWhen=03\n"
    )
    assert cli.json("broker", "settings", "broker-a", "fileReservedTime") == {"fileReservedTime": "48"}
    later = cli("broker", "set", "broker-a", "flushDiskType=SYNC_FLUSH", "fileReservedTime=72")
    assert (later.exit_code, later.stderr) == (0, "in force from the next start on: flushDiskType\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["broker-a", "fileReservedTim=48"], "did you mean 'fileReservedTime'?"),
        (
            ["broker-a", "deleteWhen=03", "fileReservedTime=soon"],
            "fileReservedTime is 'soon': a whole number is expected",
        ),
        (["broker-x", "fileReservedTime=48"], "Registered: broker-a:0 at 127.0.0.1:"),
        (["broker-a", "fileReservedTime"], "key=value is expected"),
    ],
)
def test_an_invalid_setting_changes_nothing(cli: Cli, words: list[str], told: str) -> None:
    before = cli.json("broker", "settings", "broker-a")
    refused = cli("broker", "set", *words)
    assert refused.exit_code != 0
    assert told in refused.stderr
    assert cli.json("broker", "settings", "broker-a") == before


def test_connected_and_missing_slaves_are_shown(cluster: Cluster, cli: Cli, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pairs(tmp_path) as made:
            pair = {"broker_name": "pair", "namesrv_addr": cluster.namesrv}
            master = await made.broker("master", **pair)
            alone = await asyncio.to_thread(cli, "broker", "replicas", "pair")
            assert alone.exit_code == Status.UNHEALTHY
            assert alone.stderr == "broker pair: 0 of 1 slave in sync\n"
            assert (await asyncio.to_thread(cli, "broker", "replicas")).exit_code == 0, "nobody said there are slaves"
            slave = await made.slave_of(master, **pair)
            await made.send(master, b"a message")
            await caught_up(master, slave)
            [row] = await asyncio.to_thread(cli.json, "broker", "replicas", "pair")
            end = master.services.store.max_physical_offset
            assert (row["broker"], row["master"], row["logEnd"]) == ("pair", master.address, end)
            assert (row["behind"], row["inSync"]) == (0, True)
            told = await asyncio.to_thread(cli, "doctor", "-o", "json")
            [seen] = [check for check in json.loads(told.stdout) if check["check"] == "replication"]
            assert (seen["target"], seen["status"], seen["detail"]) == ("pair", "ok", "1 of 1 slave in sync")
            both = await asyncio.to_thread(cli.jsonl, "broker", "replicas")
            assert [(row["broker"], row["slave"] is None) for row in both] == [("broker-a", True), ("pair", False)]

    asyncio.run(scenario())
    gone = cli("broker", "replicas", "pair")
    assert (gone.exit_code, "Registered masters: broker-a" in gone.stderr) == (Status.NOT_FOUND, True)


def test_a_delayed_message_is_recalled(cluster: Cluster, cli: Cli) -> None:
    cluster.create_topic("reminders", 1)
    cli.ok("broker", "set", "broker-a", "recallMessageEnable=true")
    sent = cli.json("message", "send", "reminders", "later", "--delay", "3600")
    assert sent["msgId"] in cli.ok("message", "recall", "reminders", sent["recallHandle"])
    refused = cli("message", "recall", "reminders", "nonsense")
    assert (refused.exit_code, "recall handle" in refused.stderr) == (Status.USAGE, True)
    assert cli.json("message", "send", "reminders", "now")["recallHandle"] is None
