"""``rocketmq archive`` and ``rocketmq replay``: every message once, run after run, also when runs are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rocketmq_py import arrow
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.testing import Cluster
from tests.s3 import server
from tests.server.archives import check_copy, numbers, rows, send
from tests.server.cli import Cli, eventually

N = 600


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A broker that soon asks what has become of a transaction."""
    with Cluster(transaction_time_out=500, transaction_check_interval=500) as running:
        yield running


@pytest.fixture
def cli(cluster: Cluster) -> Cli:
    return Cli(cluster.namesrv)


def filled(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, queues=3)
    for first in range(0, N, 100):
        send(cluster, topic, first, first + 100)


def test_each_run_takes_what_is_new(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    filled(cluster, "kept")
    to = tmp_path / "archive"
    assert f"archived {N} messages of topic kept" in cli.ok("archive", "kept", "--to", to, "--rows", 250)
    assert numbers(rows(to)) == list(range(N))
    assert len(list(to.glob("*.parquet"))) == 3
    assert "archived 0 messages" in cli.ok("archive", "kept", "--to", to)
    send(cluster, "kept", N, N + 30)
    (to / "part-000003.parquet").write_bytes(b"left by a run that was killed before the manifest named it")
    assert "archived 30 messages of topic kept; " in cli.ok("archive", "kept", "--to", to)
    assert numbers(rows(to)) == list(range(N + 30))
    one = rows(to).to_pylist()[7]
    i = int(one["body"])
    assert (one["keys"], one["tags"], one["flag"], dict(one["properties"])["n"]) == (f"k{i}", "AB"[i % 2], i, str(i))


def test_a_killed_run_is_continued(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    filled(cluster, "killed")
    to = tmp_path / "archive"
    command = [sys.executable, "-m", "rocketmq_py.cli", "archive", "killed", "--to", to, "--rows", "3"]
    with subprocess.Popen([*command, "--namesrv", cluster.namesrv], stderr=subprocess.DEVNULL) as process:
        eventually((to / "part-000005.parquet").exists)
        process.kill()
    before = len(json.loads((to / "archive.json").read_bytes())["parts"])
    assert 0 < before < N / 3
    cli.ok("archive", "killed", "--to", to, "--rows", 100)
    assert numbers(rows(to)) == list(range(N))


def test_a_delta_table_has_every_message_once(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    filled(cluster, "table")
    to = tmp_path / "table"
    run = ("archive", "table", "--to", to, "--format", "delta", "--rows")
    assert f"archived {N} messages of topic table; {to} has {N} in 3 files" in cli.ok(*run, 250)
    assert "archived 0 messages" in cli.ok(*run, 250)
    send(cluster, "table", N, N + 30)
    assert f"archived 30 messages of topic table; {to} has {N + 30} in " in cli.ok(*run, 1000)
    found = DeltaTable(to).to_pyarrow_table()
    assert numbers(found) == list(range(N + 30))
    one = found.to_pylist()[7]
    i = int(one["body"])
    assert (one["keys"], one["tags"], one["flag"], dict(one["properties"])["n"]) == (f"k{i}", "AB"[i % 2], i, str(i))


def test_a_killed_run_of_a_delta_table_is_continued(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    filled(cluster, "killed-table")
    to = tmp_path / "table"
    command = [sys.executable, "-m", "rocketmq_py.cli", "archive", "killed-table", "--to", to, "--format", "delta"]
    with subprocess.Popen(
        [*command, "--rows", "3", "--namesrv", cluster.namesrv], stderr=subprocess.DEVNULL
    ) as process:
        eventually((to / "_delta_log" / f"{5:020d}.json").exists)
        process.kill()
    assert 0 < DeltaTable(to).count() < N
    cli.ok("archive", "killed-table", "--to", to, "--rows", 100, "--format", "delta")
    assert numbers(DeltaTable(to).to_pyarrow_table()) == list(range(N))


def test_a_store_is_archived_without_its_broker(tmp_path: Path, cli: Cli) -> None:
    with Cluster(store_dir=tmp_path / "stores") as cluster:
        filled(cluster, "old")
    to = tmp_path / "archive"
    cli.ok("archive", "old", "--to", to, "--store", tmp_path / "stores" / "broker-a")
    assert numbers(rows(to)) == list(range(N))


def test_a_store_in_s3_is_archived(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 20_000}
    with Cluster(store_dir=tmp_path / "stores", **sizes) as cluster:
        filled(cluster, "old")
    to = tmp_path / "archive"
    with server(tmp_path) as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        cli.ok("archive", "old", "--to", to, "--store", s3.upload(tmp_path / "stores" / "broker-a", "broker-a"))
        assert numbers(rows(to)) == list(range(N))
        missing = cli("archive", "old", "--to", to, "--store", "s3://stores/none")
    assert "s3://stores/none is no store" in missing.output
    assert missing.exit_code == Status.USAGE
    secret = cli("archive", "old", "--to", to, "--store", "s3://me:hidden@stores/broker-a")
    assert "has a password" in secret.output
    assert "hidden" not in secret.output


def test_messages_of_a_replay_are_in_the_topic_once_and_in_order(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    filled(cluster, "source")
    to = tmp_path / "archive"
    cli.ok("archive", "source", "--to", to)
    cluster.create_topic("copy", queues=2)
    assert f"replayed {N} messages to topic copy, {N} in all runs" in cli.ok("replay", to, "--topic", "copy")
    assert "replayed 0 messages" in cli.ok("replay", to, "--topic", "copy")
    check_copy(cluster, "copy", "source")
    send(cluster, "source", N, N + 10)
    cli.ok("archive", "source", "--to", to)
    assert f"replayed 10 messages to topic copy, {N + 10} in all runs" in cli.ok("replay", to, "--topic", "copy")
    check_copy(cluster, "copy", "source")


@pytest.mark.parametrize("after", [1, 3])
def test_a_killed_replay_delivers_every_message_once(cli: Cli, cluster: Cluster, tmp_path: Path, after: int) -> None:
    topic, copy = f"before-{after}", f"again-{after}"
    filled(cluster, topic)
    to = tmp_path / "archive"
    cli.ok("archive", topic, "--to", to)
    cluster.create_topic(copy, queues=2)
    command = [sys.executable, "-m", "rocketmq_py.cli", "replay", to, "--topic", copy, "--rate", "100"]
    decisions = to / "replays" / copy / "decisions"
    with subprocess.Popen([*command, "--namesrv", cluster.namesrv], stderr=subprocess.DEVNULL) as process:
        eventually(lambda: decisions.is_dir() and (decisions / f"{after:020d}.json").exists())
        process.kill()
    state = json.loads((to / "replays" / copy / "replay.json").read_bytes())
    assert state["delivered"] < N
    assert f"{N} in all runs" in cli.ok("replay", to, "--topic", copy)
    check_copy(cluster, copy, topic)


def test_a_replay_of_a_time(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("timed", queues=1)
    send(cluster, "timed", 0, 100)
    to = tmp_path / "archive"
    cli.ok("archive", "timed", "--to", to)
    times = rows(to).column("storeTimestamp").to_pylist()
    boundary = sorted(set(times))[len(set(times)) // 2]
    before = sum(time < boundary for time in times)
    assert 0 < before < 100
    cluster.create_topic("early", queues=1)
    cluster.create_topic("late", queues=1)
    text = boundary.isoformat(timespec="milliseconds")
    assert f"replayed {before} messages" in cli.ok("replay", to, "--topic", "early", "--to", text)
    assert f"replayed {100 - before} messages" in cli.ok("replay", to, "--topic", "late", "--from", text)
    assert numbers(arrow.read("early", namesrv=cluster.namesrv).read_all()) == list(range(before))
    other = cli("replay", to, "--topic", "late")
    assert (other.exit_code, "was begun with other times" in other.stderr) == (Status.FAILED, True)


def test_what_cannot_be_done_is_said(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    filled(cluster, "said")
    to = tmp_path / "archive"
    cli.ok("archive", "said", "--to", to)

    def told(*words: object) -> str:
        result = cli(*words)
        assert result.exit_code != Status.OK, result.output
        return str(result.stderr)

    assert "is an archive of topic said" in told("archive", "kept", "--to", to)
    assert "has no archive.json" in told("replay", tmp_path, "--topic", "x")
    assert "does not exist" in told("archive", "nowhere", "--to", tmp_path / "other")
    manifest = json.loads((to / "archive.json").read_bytes())
    part = to / manifest["parts"][0]["name"]
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    assert "cannot be read" in told("archive", "said", "--to", to)
    part.write_bytes(content)
    (to / "archive.json").write_text(json.dumps({**manifest, "form": 9}))
    assert "use a newer version" in told("archive", "said", "--to", to)
    manifest["parts"][0]["rows"] += 1
    (to / "archive.json").write_text(json.dumps(manifest))
    assert "archive.json says" in told("replay", to, "--topic", "x")
    manifest["parts"][0]["name"] = "../x.parquet"
    (to / "archive.json").write_text(json.dumps(manifest))
    assert "which is no file of" in told("replay", to, "--topic", "x")
    (to / "archive.json").write_text("{")
    assert "cannot be read" in told("replay", to, "--topic", "x")
    if os.name == "posix":
        import fcntl

        with (to / "lock").open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert "another run is using" in told("archive", "said", "--to", to)
