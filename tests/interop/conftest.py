"""One Java name server and broker for the whole session, and our own server beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.javapeer import JavaPeer, JavaServer


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    """The Java peer, built; everything started through it ends with the session."""
    peer = JavaPeer(tmp_path_factory.mktemp("java"))
    peer.build()
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def java_namesrv(java: JavaPeer) -> JavaServer:
    """A Java name server."""
    return java.namesrv()


@pytest.fixture(scope="session")
def java_broker(java: JavaPeer, java_namesrv: JavaServer) -> JavaServer:
    """A Java broker ``broker-a`` of ``DefaultCluster``, registered at ``java_namesrv``."""
    return java.broker(java_namesrv.address)
