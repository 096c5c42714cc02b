"""``rocketmq archive`` and ``rocketmq replay`` with a Java broker, killed and continued: every message once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rocketmq_py import Admin
from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.ours import OurServers
from tests.interop.side import Side, await_readable, eventually
from tests.interop.test_transactions import SOON
from tests.server.archives import check_copy, numbers, rows, send
from tests.server.cli import Cli

N = 400


@pytest.fixture(scope="module")
def side(java: JavaPeer, servers: OurServers) -> Side:
    """A Java broker that soon asks what has become of a transaction."""
    broker: JavaServer = java.broker(servers.namesrv().namesrv, conf=SOON)
    return Side("java", broker.namesrv, broker.address)


@pytest.fixture(scope="module")
def source(java: JavaPeer, side: Side) -> str:
    topic = side.topic(java, queues=3)
    send(side, topic, 0, N)
    await_readable(side.namesrv, topic, N)
    return topic


def killed(side: Side, seen: Callable[[], object], *words: object) -> None:
    """Run a verb, and kill it as soon as something is seen."""
    command = [sys.executable, "-m", "rocketmq_py.cli", *map(str, words), "--namesrv", side.namesrv]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        eventually(lambda: seen() or process.poll() is not None, bool)
        process.kill()
    assert process.returncode < 0, "it was over before"


def test_an_archive_of_parquet_files(side: Side, source: str, tmp_path: Path) -> None:
    to, cli = tmp_path / "archive", Cli(side.namesrv)
    for file in ("part-000003.parquet", "part-000009.parquet"):
        killed(side, (to / file).exists, "archive", source, "--to", to, "--rows", 3)
    parts = json.loads((to / "archive.json").read_bytes())["parts"]
    assert 0 < sum(part["rows"] for part in parts) < N
    assert f"{to} has {N} in " in cli.ok("archive", source, "--to", to)
    assert numbers(rows(to)) == list(range(N))


def test_an_archive_as_a_delta_table(side: Side, source: str, tmp_path: Path) -> None:
    to, cli = tmp_path / "table", Cli(side.namesrv)
    run = ("archive", source, "--to", to, "--format", "delta")
    for number in (3, 9):
        killed(side, (to / "_delta_log" / f"{number:020d}.json").exists, *run, "--rows", 3)
    assert 0 < DeltaTable(to).count() < N
    assert f"{to} has {N} in " in cli.ok(*run)
    assert numbers(DeltaTable(to).to_pyarrow_table()) == list(range(N))


def test_a_replay(java: JavaPeer, side: Side, source: str, tmp_path: Path) -> None:
    to, cli, copy = tmp_path / "archive", Cli(side.namesrv), side.topic(java, queues=2)
    cli.ok("archive", source, "--to", to)
    replays, run = to / "replays" / copy, ("replay", to, "--topic", copy)
    for number in (1, 3):
        killed(side, (replays / "decisions" / f"{number:020d}.json").exists, *run, "--rate", 50)
    assert json.loads((replays / "replay.json").read_bytes())["delivered"] < N
    assert f"{N} in all runs" in cli.ok(*run)
    await_readable(side.namesrv, copy, N)
    check_copy(side, copy, source, in_order=False)
    with Admin(side.namesrv) as admin:
        assert sum(map(admin.max_offset, admin.queues(copy))) == N


def test_a_replay_that_is_not_killed_keeps_the_order(java: JavaPeer, side: Side, source: str, tmp_path: Path) -> None:
    to, cli, copy = tmp_path / "archive", Cli(side.namesrv), side.topic(java, queues=3)
    cli.ok("archive", source, "--to", to)
    cli.ok("replay", to, "--topic", copy)
    await_readable(side.namesrv, copy, N)
    check_copy(side, copy, source)
