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
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    """The Java peer, built; everything started through it ends with the session."""
    peer = JavaPeer(tmp_path_factory.mktemp("java"))
    peer.build()
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurServers]:
    """Starts our servers; those that run at the end are killed."""
    ours = OurServers(tmp_path_factory.mktemp("ours"))
    yield ours
    ours.close()


@pytest.fixture(scope="session")
def java_broker(java: JavaPeer) -> JavaServer:
    """A Java broker ``broker-a`` of ``DefaultCluster``; ``namesrv`` is its Java name server."""
    return java.broker(java.namesrv().address)


@pytest.fixture(scope="session")
def our_server(servers: OurServers) -> OurServer:
    """Our name server and broker."""
    return servers.serve()


@pytest.fixture(scope="session", params=["ours", "java"])
def side(request: pytest.FixtureRequest) -> Side:
    """Whose servers: ours, then Java's. Tests that take it hold on both."""
    if request.param == "ours":
        ours: OurServer = request.getfixturevalue("our_server")
        return Side("ours", ours.namesrv, ours.broker)
    theirs: JavaServer = request.getfixturevalue("java_broker")
    return Side("java", theirs.namesrv, theirs.address)


@pytest.fixture(scope="session")
def asked(
    java: JavaPeer, servers: OurServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Answers, Answers]]:
    """What tools are told by Java's servers and by ours; each side has servers and an mqadmin of its own."""
    work = tmp_path_factory.mktemp("asked")
    second = JavaPeer(tmp_path_factory.mktemp("asked-ours"))

    def on_java() -> Answers:
        broker = java.broker(java.namesrv().address)
        return Run(java, broker.namesrv, broker.address, work / "java").run()

    def on_ours() -> Answers:
        server = servers.serve(None, **{name: str(value) for name, value in QUICK_CONF.items()})
        return Run(second, server.namesrv, server.broker, work / "ours").run()

    try:
        with ThreadPoolExecutor(2) as pool:
            theirs, ours = pool.submit(on_java), pool.submit(on_ours)
            yield theirs.result(), ours.result()
    finally:
        second.close()
