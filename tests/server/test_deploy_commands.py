"""The commands of ``deploy/compose.yaml`` run without containers: the servers become ready, and metrics are there."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from rocketmq_py import Message, Producer
from tests.deployment import DEPLOY, labels_in, metrics_in, queries

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the servers are ended with SIGTERM")

ROCKETMQ = [sys.executable, "-m", "rocketmq_py.cli"]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


@contextlib.contextmanager
def running(words: list[str]) -> Iterator[str]:
    """A server; yields its READY line, and ends the server in good order."""
    process = subprocess.Popen([*ROCKETMQ, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline()
    finally:
        process.terminate()
        process.stdout.read()
        process.stdout.close()
        assert process.wait() == 0


def here(words: list[str], changes: dict[str, str]) -> list[str]:
    """A command of compose with the addresses of this machine instead of those of containers."""
    found = [re.sub(r"\$\{\w+:-\w+\}", "127.0.0.1", word) for word in words]
    for before, after in {"0.0.0.0": "127.0.0.1", **changes}.items():
        found = [word.replace(before, after) for word in found]
    return found


def is_healthy(test: list[str], port: int) -> bool:
    assert test[:2] == ["CMD", "rocketmq"]
    return subprocess.run([*ROCKETMQ, *test[2:], "--port", str(port)], check=False, capture_output=True).returncode == 0


def labels_of(port: int) -> dict[str, set[str]]:
    """Names of labels by series of an exposition."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=240) as answer:
        lines = answer.read().decode().splitlines()
    found: dict[str, set[str]] = {}
    for line in lines:
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', rest))
    return found


def test_the_cluster_of_compose_becomes_ready_and_shows_what_the_dashboard_asks_for(tmp_path: Path) -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    command = {name: services[name]["command"] for name in ("namesrv", "broker", "console")}
    test = services["broker"]["healthcheck"]["test"]
    ports = free_ports(4)
    kv = f"--set=kvConfigPath={tmp_path}/kv.json"
    of_namesrv = [*here(command["namesrv"], {}), f"--port={ports[0]}", kv, f"--set=metricsPromExporterPort={ports[1]}"]
    changes = {"namesrv:9876": f"127.0.0.1:{ports[0]}", "/var/lib/rocketmq": str(tmp_path)}
    of_broker = [*here(command["broker"], changes), "--port=0", f"--set=metricsPromExporterPort={ports[2]}"]
    of_console = here(command["console"], {**changes, "--metrics-port=5557": f"--metrics-port={ports[3]}"})
    assert not is_healthy(test, ports[1])
    with running(of_namesrv) as namesrv:
        assert namesrv.startswith("READY namesrv=")
        with running(of_broker) as broker, running([*of_console, "--port=0"]) as console:
            assert (broker.startswith("READY namesrv="), console.startswith("READY console=http://")) == (True, True)
            assert [is_healthy(test, port) for port in ports[1:]] == [True] * 3
            with Producer("p", f"127.0.0.1:{ports[0]}") as producer:
                producer.send(Message("t", b"1"))
            with urlopen(console.split("console=")[1].strip(), timeout=240) as answer:
                assert answer.status == 200
            shown = labels_of(ports[1]) | labels_of(ports[2]) | labels_of(ports[3])
        assert is_healthy(test, ports[1])
    asked = {name for query in queries() for name in metrics_in(query)}
    expected = {
        "rocketmq_messages_in_total", "rocketmq_broker_permission", "rocketmq_rpc_latency_milliseconds_bucket",
        "rocketmq_py_namesrv_brokers", "rocketmq_py_console_page_seconds_bucket",
    }  # fmt: skip
    assert expected <= asked & shown.keys()
    wrong = [(name, labels - shown[name]) for query in queries() for name, labels in labels_in(query).items()
             if name in shown and labels - shown[name]]  # fmt: skip
    assert wrong == []
