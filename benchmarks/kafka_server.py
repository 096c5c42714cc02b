"""A Kafka broker for the Spark rows: one KRaft process on loopback, and the packages of Spark's Kafka source.

The packages come through Maven (``kafka/pom.xml``) into a cache folder, once.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.errors import BenchError
from benchmarks.program import Program

_POM = Path(__file__).parent / "kafka" / "pom.xml"
_CLUSTER = base64.urlsafe_b64encode(b"rocketmq-benches").decode().rstrip("=")
"""Cluster id: any 16 bytes in base64 that do not begin with a dash, which Kafka's tool would take for an option."""
_STARTED = "Kafka Server started"
_START_SECONDS = 90.0
_JVM = [
    "-Xms512m",
    "-Xmx1g",
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
]


def cache() -> Path:
    """Return the folder for downloads of the benchmarks, in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketmq-py-bench"


def packages() -> Path:
    """Return the folder with ``server/*.jar`` and ``spark/*.jar``; download them if they are missing or outdated.

    :raises BenchError: Maven failed.
    """
    folder = cache() / "kafka"
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_bytes() != _POM.read_bytes():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(_POM), f"-Dout={folder}", "package"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"Maven could not fetch Kafka:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        stamp.write_bytes(_POM.read_bytes())
    return folder


@contextmanager
def kafka(work: Path, partitions: int, advertised: str = "127.0.0.1") -> Iterator[tuple[str, int]]:
    """Run a broker during the block, which gets its bootstrap address and process id.

    New topics have ``partitions`` partitions.

    :param advertised: the host that clients are told; the broker listens at 127.0.0.1.
    """
    settings, address = _settings(work, partitions, advertised)
    java = [os.environ.get("JAVA", "java"), *_JVM, "-cp", f"{packages() / 'server'}/*"]
    _format(java, settings)
    with Program([*java, "kafka.Kafka", str(settings)], work / "kafka.log") as server:
        while _STARTED not in server.line(_START_SECONDS):
            pass
        yield address, server.pid


def _format(java: list[str], settings: Path) -> None:
    command = [*java, "kafka.tools.StorageTool", "format", "--standalone", "-t", _CLUSTER, "-c", str(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"Kafka could not format its log directory:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _settings(work: Path, partitions: int, advertised: str) -> tuple[Path, str]:
    broker, controller = (f"127.0.0.1:{port}" for port in _free_ports(2))
    path = work / "kafka.properties"
    lines = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{advertised}:{broker.rpartition(':')[2]}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": work / "kafka-data",
        "num.partitions": partitions,
        # The broker is paused while the other side is measured, and must not expire meanwhile.
        "broker.session.timeout.ms": 120_000,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path, broker


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
