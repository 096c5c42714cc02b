"""Apache's clients for RocketMQ 5, which speak gRPC, at our broker: every mode, with and without TLS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketmq_py import Admin, ConsumeFromWhere, Message, Producer, PushConsumer
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from tests.interop.foreign import lacking
from tests.interop.foreign_builds import JVM, PROGRAMS, built, go_program, node_modules, run
from tests.interop.java_proxy import java_proxy
from tests.interop.javapeer import JavaPeer, missing
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import Inbox

JAVA_VERSION, PYTHON_VERSION, NODE_VERSION = "5.2.0", "5.1.2", "1.0.8"
MODES = ["normal", "tag", "sql", "delay", "redelivery", "push", "fifo", "transaction", "dead"]
TYPES = {"delay": "DELAY", "fifo": "FIFO", "transaction": "TRANSACTION"}
SETTINGS = {
    "enablePropertyFilter": "true", "recallMessageEnable": "true", "transactionCheckInterval": 2000,
    "transactionTimeOut": 3000, "transactionOpBatchInterval": 200,
}  # fmt: skip
"""A Java broker forgets an open transaction with the next batch of ends; it asks again meanwhile, and the second commit
is another message."""
SECONDS = 500.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def server(servers: OurServers) -> Iterator[OurServer]:
    return servers.serve(**SETTINGS)


@pytest.fixture
def prefix(server: OurServer, request: pytest.FixtureRequest) -> str:
    """Topics and groups of a run begin with it."""
    return prepared(server.namesrv, request)


def prepared(namesrv: str, request: pytest.FixtureRequest) -> str:
    """Create topics and groups at all brokers; return how their names begin."""
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)[-40:].strip("-")
    with Admin(namesrv) as admin:
        for mode in MODES:
            admin.create_topic(f"{name}-{mode}", 4, attributes={"message.type": TYPES.get(mode, "NORMAL")})
            admin.create_group(SubscriptionGroupConfig(
                group_name=f"{name}-g-{mode}", consume_message_orderly=mode == "fifo",
                retry_max_times=1 if mode == "dead" else 16,
            ))  # fmt: skip
    return name


def java() -> list[str]:
    sources = PROGRAMS / "grpc-java"
    folder = built(sources, f"grpc-java-{JAVA_VERSION}", lambda folder: run(
        ["mvn", "-q", "-B", "-f", str(sources / "pom.xml"), "-Dstyle.color=never", f"-Dout={folder}",
         f"-Dclient.version={JAVA_VERSION}", "package", "dependency:copy-dependencies"]
    ))  # fmt: skip
    path = f"{folder / 'grpc-client-1.jar'}:{folder / f'lib-{JAVA_VERSION}'}/*"
    return [os.environ.get("JAVA", "java"), *JVM, "-cp", path, "grpcprobe.Probe"]


def python() -> list[str]:
    def install(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder / "venv")])
        package = f"rocketmq-python-client=={PYTHON_VERSION}"
        run([str(folder / "venv" / "bin" / "pip"), "install", "--quiet", package])

    folder = built(None, f"grpc-python-{PYTHON_VERSION}", install)
    return [str(folder / "venv" / "bin" / "python"), str(PROGRAMS / "grpc-python" / "probe.py")]


def node() -> list[str]:
    modules = node_modules("rocketmq-client-nodejs", NODE_VERSION)
    return ["env", f"NODE_PATH={modules}", "node", str(PROGRAMS / "grpc-node" / "probe.js")]


def go() -> list[str]:
    return [str(go_program(PROGRAMS / "grpc-go"))]


def rust() -> list[str]:
    sources = PROGRAMS / "grpc-rust"
    folder = built(sources, "grpc-rust", lambda folder: run(
        ["cargo", "build", "--quiet", "--locked", "--manifest-path", str(sources / "Cargo.toml"), "--target-dir",
         str(folder)]
    ))  # fmt: skip
    return [str(folder / "debug" / "probe")]


CLIENTS: dict[str, tuple[Callable[[], list[str]], Callable[[], str | None]]] = {
    "java": (java, missing),
    "python": (python, lambda: None),
    "node": (node, lambda: lacking("node")),
    "go": (go, lambda: lacking("go")),
    "rust": (rust, lambda: lacking("rust")),
}
"""How the program of a client is made, and why it cannot be made here."""


class Client(NamedTuple):
    """The command that runs the program of a client, and the modes that the client has.

    :ivar asks_in_turn: whether a consumer asks one queue after the other, and waits up to 20 s at each that is empty:
        with eight queues at either master the messages of the second come after minutes.
    """

    command: list[str]
    modes: list[str]
    asks_in_turn: bool


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return client_named(request.param)


def client_named(name: str) -> Client:
    make, lacks = CLIENTS[name]
    why = lacks()
    if why is not None:
        pytest.skip(why)
    is_rust = name == "rust"
    lacking_modes = {"push", "dead"} if is_rust else set()
    return Client(make(), [mode for mode in MODES if mode not in lacking_modes], asks_in_turn=is_rust)


def probe(command: list[str], endpoint: str, prefix: str, how: str, work: Path, modes: list[str]) -> None:
    faults, stderr = faults_of(command, endpoint, prefix, how, work, modes)
    assert faults == dict.fromkeys(modes, ""), stderr


def faults_of(
    command: list[str], endpoint: str, prefix: str, how: str, work: Path, modes: list[str]
) -> tuple[dict[str, str], str]:
    """Run modes of a client; return what failed by mode, and the end of its errors."""
    environment = os.environ | {"HOME": str(work)}
    done = subprocess.run(
        [*command, endpoint, prefix, how, "", "", ",".join(modes)], capture_output=True, text=True, check=False,
        timeout=SECONDS, env=environment, cwd=work,
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"mode"')]
    return {line["mode"]: line.get("why", "") for line in said}, done.stderr[-3000:]


def dead_letters(namesrv: str, group: str) -> list[bytes]:
    inbox = Inbox()
    with PushConsumer(group=f"{group}-reader", namesrv=namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(f"%DLQ%{group}", listener=inbox)
        consumer.start()
        return [message.body for message in inbox.wait(1)]


def test_every_mode_of_a_client_works(client: Client, server: OurServer, prefix: str, tmp_path: Path) -> None:
    probe(client.command, server.broker, prefix, "plain", tmp_path, client.modes)
    if "dead" not in client.modes:
        return
    with Admin(server.namesrv) as admin:
        admin.create_topic(f"%DLQ%{prefix}-g-dead", 1)  # of messages that were dead letters before
    assert dead_letters(server.namesrv, f"{prefix}-g-dead") == [b"bad"]


@pytest.mark.parametrize("name", ["java", "go"])  # they accept a self-signed certificate
def test_clients_work_over_tls(name: str, server: OurServer, prefix: str, tmp_path: Path) -> None:
    make, lacks = CLIENTS[name]
    why = lacks()
    if why is not None or shutil.which("openssl") is None:
        pytest.skip(why or "no openssl")
    probe(make(), server.broker, prefix, "tls", tmp_path, ["normal", "push", "transaction"])


def test_members_of_both_protocols_share_a_group(
    client: Client, server: OurServer, prefix: str, tmp_path: Path
) -> None:
    """A client of remoting produces and consumes beside a client of gRPC."""
    topic = f"{prefix}-normal"
    with Producer(f"{prefix}-p", server.namesrv) as producer:
        producer.send(Message(topic, b"from remoting"))
    inbox = Inbox()
    with PushConsumer(f"{prefix}-all", server.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, listener=inbox)
        consumer.start()
        probe(client.command, server.broker, prefix, "plain", tmp_path, ["push" if "push" in client.modes else "tag"])
        assert [message.body for message in inbox.wait(1)] == [b"from remoting"]


@pytest.fixture(scope="module")
def masters(servers: OurServers) -> tuple[OurServer, OurServer]:
    """Two masters of one cluster; the first has the name server."""
    first = servers.serve(**SETTINGS)
    second = servers.serve(None, "--namesrv", first.namesrv, "--name", "broker-b", **SETTINGS)
    return first, second


def stored(namesrv: str, topic: str) -> dict[str, int]:
    """The number of messages of a topic by broker."""
    with Admin(namesrv) as admin:
        counts: dict[str, int] = {}
        for queue, offsets in admin.topic_stats(topic).items():
            counts[queue.broker_name] = counts.get(queue.broker_name, 0) + offsets.max_offset - offsets.min_offset
        return counts


def test_a_client_with_one_endpoint_uses_all_masters(
    client: Client, masters: tuple[OurServer, OurServer], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if client.asks_in_turn:
        pytest.skip("it asks one queue after the other")
    first, second = masters
    name = prepared(first.namesrv, request)
    probe(client.command, second.broker, name, "plain", tmp_path, client.modes)
    for mode in ("normal", "tag", "sql"):
        assert all(stored(first.namesrv, f"{name}-{mode}").values()), "each master has some of the messages"


def test_brokers_of_apache_are_left_out_of_routes(
    client: Client, java: JavaPeer, servers: OurServers, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    ours = servers.serve(**SETTINGS)
    java.broker(ours.namesrv, name="broker-j")
    name = prepared(ours.namesrv, request)
    probe(client.command, ours.broker, name, "plain", tmp_path, [m for m in ("normal", "push") if m in client.modes])
    counts = stored(ours.namesrv, f"{name}-normal")
    assert counts.pop("broker-j") == 0
    [own] = counts.values()
    assert own > 0


# -- the same programs through Apache's proxy

RACE = '"settings" is null'
"""A fault of Apache's proxy: it drops the settings of a consumer that its group does not list yet, and the next
ReceiveMessage is answered with a NullPointerException. A mode that meets it says nothing about our broker.
"""


@pytest.fixture(scope="module", params=["ours", "java"])
def proxied(
    request: pytest.FixtureRequest, java: JavaPeer, servers: OurServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Name server and endpoint of a proxy in front of a broker of ours or of Java."""
    if request.param == "ours":
        namesrv = servers.serve(**SETTINGS).namesrv
    else:
        namesrv = java.namesrv().address
        java.broker(namesrv, conf=SETTINGS)
    with java_proxy(namesrv, tmp_path_factory.mktemp("proxy")) as proxy:
        yield namesrv, proxy.endpoint


def test_clients_work_through_the_proxy_of_apache(
    client: Client, proxied: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """With Java's broker: what the programs expect is what Apache's own servers do. With ours: it serves the proxy."""
    namesrv, endpoint = proxied
    name = prepared(namesrv, request)
    faults, stderr = faults_of(client.command, endpoint, name, "plain", tmp_path, client.modes)
    assert faults.keys() == set(client.modes), stderr
    raced = {mode for mode, fault in faults.items() if RACE in fault}
    assert raced <= {"normal", "tag", "sql", "delay", "redelivery"}, "they receive as soon as the client has started"
    assert {mode: fault for mode, fault in faults.items() if fault and mode not in raced} == {}
