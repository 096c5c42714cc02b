"""Servers of both kinds, shared by all interop tests: a JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.javapeer import QUICK_CONF, JavaPeer, JavaServer
from tests.interop.mqadmin_run import Answers, Run
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import Side


@pytest.fixture(scope="session")
def java_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    """The Java peer, built, for what all tests share; everything started through it ends with the session."""
    peer = JavaPeer(tmp_path_factory.mktemp("java"))
    peer.build()
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def java(java_shared: JavaPeer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    """The Java peer: what a test starts through it ends with the test, what a fixture of its module with the module.

    A Java broker takes a tenth of a core when nobody asks anything of it; ten of them took half of all there is.
    """
    peer = JavaPeer(tmp_path_factory.mktemp("java"), host=java_shared)
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurServers]:
    """Starts our servers, which end like those of ``java``."""
    ours = OurServers(tmp_path_factory.mktemp("ours"))
    yield ours
    ours.close()


@pytest.fixture(autouse=True)
def nothing_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    peers: list[JavaPeer | OurServers] = [
        request.getfixturevalue(name) for name in ("java", "servers") if name in request.fixturenames
    ]
    running = [peer.count for peer in peers]
    yield
    for peer, before in zip(peers, running, strict=True):
        peer.close(before)


@pytest.fixture(scope="session")
def java_broker(java_shared: JavaPeer) -> JavaServer:
    """A Java broker ``broker-a`` of ``DefaultCluster``; ``namesrv`` is its Java name server."""
    return java_shared.broker(java_shared.namesrv().address)


@pytest.fixture(scope="session")
def our_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurServer]:
    """Our name server and broker."""
    ours = OurServers(tmp_path_factory.mktemp("ours"))
    yield ours.serve()
    ours.close()


@pytest.fixture(scope="session", params=["ours", "java"])
def side(request: pytest.FixtureRequest) -> Side:
    """Whose servers: ours, then Java's. Tests that take it hold on both."""
    if request.param == "ours":
        ours: OurServer = request.getfixturevalue("our_server")
        return Side("ours", ours.namesrv, ours.broker)
    theirs: JavaServer = request.getfixturevalue("java_broker")
    return Side("java", theirs.namesrv, theirs.address)


@pytest.fixture(scope="session")
def asked(java_shared: JavaPeer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """What tools are told by Java's servers and by ours; each side has servers and an mqadmin of its own."""
    java = JavaPeer(tmp_path_factory.mktemp("asked-java"), host=java_shared)
    second = JavaPeer(tmp_path_factory.mktemp("asked-ours"))
    servers = OurServers(second.work)

    def on_java() -> Answers:
        broker = java.broker(java.namesrv().address)
        return Run(java, broker.namesrv, broker.address, java.work / "files").run()

    def on_ours() -> Answers:
        server = servers.serve(None, **{name: str(value) for name, value in QUICK_CONF.items()})
        return Run(second, server.namesrv, server.broker, second.work / "files").run()

    try:
        with ThreadPoolExecutor(2) as pool:
            theirs, ours = pool.submit(on_java), pool.submit(on_ours)
            return theirs.result(), ours.result()
    finally:
        java.close()
        second.close()
        servers.close()
