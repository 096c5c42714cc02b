"""Apache's proxy, with which clients that speak gRPC reach a cluster: the judge of our own gRPC."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.foreign_builds import JVM, PROGRAMS, built, run
from tests.interop.javapeer import free_port_block

VERSION = "5.5.0"
STARTED = "startup successfully"


def libraries() -> Path:
    """The proxy's jars."""
    sources = PROGRAMS / "java-proxy"
    return built(sources, f"java-proxy-{VERSION}", lambda folder: run(
        ["mvn", "-q", "-B", "-f", str(sources / "pom.xml"), "-Dstyle.color=never", f"-Dout={folder}",
         f"-Dproxy.version={VERSION}", "dependency:copy-dependencies"]
    )) / "lib"  # fmt: skip


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy: its endpoint for gRPC, and its process."""

    endpoint: str
    pid: int


@contextmanager
def java_proxy(namesrv: str, work: Path, broker: Mapping[str, object] | None = None) -> Iterator[Proxy]:
    """Run a proxy in front of the brokers of a name server (mode CLUSTER), or with a broker in its process (LOCAL).

    :param broker: settings of the broker in the process.
    """
    port = free_port_block()
    conf, broker_conf = work / "conf" / "rmq-proxy.json", work / "conf" / "broker.conf"
    conf.parent.mkdir(parents=True)
    mode = "CLUSTER" if broker is None else "LOCAL"
    conf.write_text(json.dumps({
        "rocketMQClusterName": "DefaultCluster", "proxyMode": mode, "namesrvAddr": namesrv, "grpcServerPort": port,
        "remotingListenPort": port + 1,
    }))  # fmt: skip
    broker_conf.write_text("".join(f"{key}={value}\n" for key, value in (broker or {}).items()))
    command = [
        os.environ.get("JAVA", "java"), *(JVM if broker is None else ()), f"-Drocketmq.home.dir={work}",
        f"-Duser.home={work}", "-cp", f"{libraries()}/*", "org.apache.rocketmq.proxy.ProxyStartup", "-n", namesrv,
        "-pc", str(conf), *(() if broker is None else ("-pm", "local", "-bc", str(broker_conf))),
    ]  # fmt: skip
    environment = os.environ | {"ROCKETMQ_HOME": str(work)}
    with (
        (work / "stderr").open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            said = ""
            while STARTED not in said:
                said = process.stdout.readline()
                assert said, f"the proxy ended: {(work / 'stderr').read_text()[-3000:]}"
            yield Proxy(f"127.0.0.1:{port}", process.pid)
        finally:
            process.kill()
