"""Apache's proxy, with which clients that speak gRPC reach a cluster: the judge of our own gRPC."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def java_proxy(namesrv: str, work: Path) -> Iterator[str]:
    """Run a proxy in mode CLUSTER in front of the brokers of a name server; gives its endpoint for gRPC."""
    port = free_port_block()
    conf = work / "conf" / "rmq-proxy.json"
    conf.parent.mkdir(parents=True)
    conf.write_text(json.dumps({
        "rocketMQClusterName": "DefaultCluster", "proxyMode": "CLUSTER", "namesrvAddr": namesrv, "grpcServerPort": port,
        "remotingListenPort": port + 1,
    }))  # fmt: skip
    command = [
        os.environ.get("JAVA", "java"), *JVM, f"-Drocketmq.home.dir={work}", f"-Duser.home={work}", "-cp",
        f"{libraries()}/*", "org.apache.rocketmq.proxy.ProxyStartup", "-n", namesrv, "-pc", str(conf),
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
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
