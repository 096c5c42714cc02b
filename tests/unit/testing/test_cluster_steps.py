"""What a cluster starts, stops and tells, with servers that only note it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from rocketmq_py.errors import ClosedError
from rocketmq_py.namesrv import NamesrvConfig
from rocketmq_py.testing import cluster as module
from rocketmq_py.testing.cluster import Cluster
from rocketmq_py.wire.signing import Credentials

STEPS: list[tuple[Any, ...]] = []


class Portal:
    """Runs coroutines in the calling thread."""

    def __init__(self) -> None:
        STEPS.append(("portal",))

    def run(self, coroutine: Any) -> Any:
        return asyncio.run(coroutine)

    def stop(self) -> None:
        STEPS.append(("portal stopped",))


class NameServer:
    def __init__(self, config: NamesrvConfig, tls: object, access: object) -> None:
        STEPS.append(("namesrv", config.listen_port, config.bind_address, tls, access))
        self.port = config.listen_port or 9876
        self.address = f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        STEPS.append(("namesrv started",))

    async def stop(self) -> None:
        STEPS.append(("namesrv stopped",))


class Broker:
    fails = False

    def __init__(self, config: Any, store: Any, *, tls: object, access: object, needs_fast_port: bool) -> None:
        assert not needs_fast_port, "another process may have it when the broker comes back"
        self.name, self.config, self.store = config.broker_name, config, store
        self.port = config.listen_port or 10_000 + ord(self.name[-1])
        self.address = f"127.0.0.1:{self.port}"
        self.given = (tls, access)

    async def start(self) -> None:
        if self.fails:
            raise OSError("no room")
        STEPS.append((self.name, "started", self.config.listen_port))

    async def stop(self) -> None:
        STEPS.append((self.name, "stopped"))


class Admin:
    def __init__(self, namesrv: str, *, tls: object, credentials: object) -> None:
        STEPS.append(("admin", namesrv, tls, credentials))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        STEPS.append(("admin closed",))

    async def create_topic(self, name: str, queues: int, *, order: bool) -> None:
        STEPS.append(("topic", name, queues, order))


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    STEPS.clear()
    Broker.fails = False
    for fake in (Portal, NameServer, Broker, Admin):
        monkeypatch.setattr(module, fake.__name__, fake)
    monkeypatch.setattr(module, "open_access", lambda settings, root, cluster: ("access", cluster))


def taken() -> list[tuple[Any, ...]]:
    steps = STEPS[:]
    STEPS.clear()
    return steps


ACCESS = ("access", "DefaultCluster")


def test_all_servers_are_started_and_stopped_with_their_directory() -> None:
    with Cluster(2) as cluster:
        assert taken() == [
            ("portal",), ("namesrv", 0, "127.0.0.1", None, ACCESS), ("namesrv started",),
            ("broker-a", "started", 0), ("broker-b", "started", 0),
        ]  # fmt: skip
        cluster.start()
        assert taken() == [], "it runs"
        assert cluster.namesrv == "127.0.0.1:9876"
        assert cluster.addresses == ("127.0.0.1:10097", "127.0.0.1:10098")
        directory = cluster.directory
        assert directory.name.startswith("rocketmq-")
        assert directory.is_dir()
        for broker in cluster.brokers:
            assert broker.given == (None, ACCESS)  # type: ignore[attr-defined]
            assert broker.config.store_path_root_dir == str(directory / broker.name)  # type: ignore[attr-defined]
            found = broker.config  # type: ignore[attr-defined]
            assert (found.namesrv_addr, found.bind_address, found.broker_ip1) == (
                "127.0.0.1:9876", "127.0.0.1", "127.0.0.1",
            )  # fmt: skip
    assert taken() == [("broker-a", "stopped"), ("broker-b", "stopped"), ("namesrv stopped",), ("portal stopped",)]
    assert not directory.exists()
    assert (cluster.brokers, cluster.addresses) == ((), ())
    with pytest.raises(ClosedError, match="the cluster does not run, so its temporary directory is gone"):
        _ = cluster.directory
    cluster.stop()
    assert taken() == []


def test_stores_are_small_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    with Cluster(store_dir=tmp_path / "mine", max_index_num=5, default_topic_queue_nums=3) as cluster:
        [broker] = cluster.brokers
        store: Any = broker.store  # type: ignore[attr-defined]
        assert (store.mapped_file_size_commit_log, store.mapped_file_size_consume_queue) == (16_777_216, 2_000_000)
        assert (store.max_hash_slot_num, store.max_index_num) == (10_000, 5)
        assert broker.config.default_topic_queue_nums == 3  # type: ignore[attr-defined]
    assert cluster.directory == tmp_path / "mine"


def test_a_cluster_that_cannot_start_stops_what_runs() -> None:
    Broker.fails = True
    cluster = Cluster()
    with pytest.raises(OSError, match="no room"):
        cluster.start()
    assert taken()[-2:] == [("namesrv stopped",), ("portal stopped",)]
    with pytest.raises(ClosedError):
        _ = cluster.directory
    Broker.fails = False
    with cluster:
        assert len(cluster.brokers) == 1


def test_a_broker_comes_back_on_its_port_and_a_name_server_on_its_own() -> None:
    with Cluster(2) as cluster:
        taken()
        cluster.stop_broker(1)
        cluster.stop_broker(1)
        assert [broker.name for broker in cluster.brokers] == ["broker-a"]  # type: ignore[attr-defined]
        cluster.start_broker(1)
        cluster.start_broker(1)
        cluster.stop_broker()
        cluster.start_broker()
        assert taken() == [
            ("broker-b", "stopped"), ("broker-b", "started", 10_098), ("broker-a", "stopped"),
            ("broker-a", "started", 10_097),
        ]  # fmt: skip
        assert cluster.addresses == ("127.0.0.1:10097", "127.0.0.1:10098")
        cluster.stop_namesrv()
        cluster.start_namesrv()
        assert taken() == [
            ("namesrv stopped",), ("namesrv stopped",), ("namesrv", 9876, "127.0.0.1", None, ACCESS),
            ("namesrv started",),
        ]  # fmt: skip
    Cluster().stop_namesrv()


def test_a_topic_is_created_with_the_cluster_s_own_credentials() -> None:
    inner = '{"accessKey": "a", "secretKey": "s"}'
    access = {"innerClientAuthenticationCredentials": inner}
    with Cluster(access=access) as cluster:
        taken()
        assert cluster.create_topic("T") == "T"
        assert cluster.create_topic("U", 2, order=True) == "U"
        admin = ("admin", "127.0.0.1:9876", None, Credentials("a", "s"))
        assert taken() == [
            admin, ("topic", "T", 4, False), ("admin closed",), admin, ("topic", "U", 2, True), ("admin closed",),
        ]  # fmt: skip


def test_the_tls_of_the_servers_is_that_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SimpleNamespace(client_context=lambda: "context")
    monkeypatch.setattr(module, "TlsSettings", SimpleNamespace(of=lambda given: (given, settings)[1]))
    with Cluster(tls={"tls.enable": "true"}) as cluster:
        assert taken()[1][3] is settings
        assert cluster.brokers[0].given == (settings, ACCESS)  # type: ignore[attr-defined]
        cluster.create_topic("T")
        assert taken()[0] == ("admin", "127.0.0.1:9876", "context", None)


async def test_a_cluster_may_be_used_with_async_with(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    async def to_thread(function: Any) -> None:
        called.append(function.__name__)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    async with Cluster() as cluster:
        assert isinstance(cluster, Cluster)
        assert called == ["start"]
    assert called == ["start", "stop"]


@pytest.mark.parametrize("brokers", [1, 26])
def test_a_cluster_has_up_to_26_brokers(brokers: int) -> None:
    assert len(Cluster(brokers)._names) == brokers
    assert Cluster(brokers)._names[-1] == ("broker-a" if brokers == 1 else "broker-z")
