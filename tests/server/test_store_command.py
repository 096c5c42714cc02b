"""``rocketmq store`` on the store of a running broker and of the same broker when it has stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from rocketmq_py import Message, Producer
from rocketmq_py.cli import main
from rocketmq_py.testing import Cluster


def run(*args: Any) -> Result:
    return CliRunner().invoke(main, ("store", *map(str, args)))


def fill(cluster: Cluster) -> None:
    with Producer(group="p", namesrv=cluster.namesrv) as producer:
        for i in range(30):
            producer.send(Message("orders", b"%d" % i, tags="A", keys=f"k{i} all"))
        producer.send_batch([Message("orders", b"%d" % i, keys=f"b{i}") for i in range(20)])
        producer.send(Message("orders", b"later", delay_level=18))


def test_a_running_and_a_stopped_store_can_be_inspected(tmp_path: Path) -> None:
    store = tmp_path / "broker-a"
    with Cluster(store_dir=tmp_path) as cluster:
        cluster.create_topic("orders", 2)
        fill(cluster)
        running = run("verify", store, "-o", "json")
        assert running.exit_code == 0, running.output
        assert json.loads(running.output)["state"] == "a broker runs on it"
        # Looking in does no harm: the broker takes more.
        fill(cluster)
    stopped = run("verify", store, "-o", "json")
    assert stopped.exit_code == 0, stopped.output
    report = json.loads(stopped.output)
    assert report["findings"] == []
    assert report["checked"]["records"] == report["checked"]["queueEntries"] == 102
    rows = json.loads(run("inspect", store, "--topic", "orders", "-o", "json").output)
    assert sum(row["messages"] for row in rows) == 100
    shown = run("inspect", store, "--topic", "orders", "--queue", "0", "--count", "1")
    assert shown.exit_code == 0
    assert len(shown.output.splitlines()) == 2
