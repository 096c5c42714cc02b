"""Apache's clients for RocketMQ 5 through ``rocketmq proxy``, in front of Java's broker and of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py import Admin
from tests.interop.javapeer import JavaPeer
from tests.interop.our_proxy import our_proxy
from tests.interop.ours import OurServers
from tests.interop.test_grpc_clients import (
    CLIENTS,
    MODES,
    SETTINGS,
    client_named,
    dead_letters,
    prepared,
    probe,
    stored,
)

pytestmark = pytest.mark.timeout(1500)

QUICK = ["normal", "tag", "push", "fifo", "transaction"]


@pytest.fixture(scope="module")
def of_java(java: JavaPeer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Name server and endpoint of a proxy in front of a broker of Java."""
    namesrv = java.namesrv().address
    java.broker(namesrv, conf=SETTINGS)
    with our_proxy(namesrv, tmp_path_factory.mktemp("proxy") / "log") as endpoint:
        yield namesrv, endpoint


@pytest.fixture(scope="module")
def of_ours(servers: OurServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The same in front of a broker of ours."""
    namesrv = servers.serve(**SETTINGS).namesrv
    with our_proxy(namesrv, tmp_path_factory.mktemp("proxy") / "log") as endpoint:
        yield namesrv, endpoint


def test_the_python_client_reaches_a_broker_of_java(
    of_java: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    namesrv, endpoint = of_java
    name = prepared(namesrv, request)
    probe(client_named("python").command, endpoint, name, "plain", tmp_path, QUICK)


@pytest.mark.long
@pytest.mark.parametrize("side", ["of_java", "of_ours"])
@pytest.mark.parametrize("client", CLIENTS)
def test_every_mode_of_a_client_works_through_the_proxy(
    client: str, side: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    command, modes, _ = client_named(client)
    namesrv, endpoint = request.getfixturevalue(side)
    name = prepared(namesrv, request)
    probe(command, endpoint, name, "plain", tmp_path, modes)
    if "dead" in modes:
        with Admin(namesrv) as admin:
            admin.create_topic(f"%DLQ%{name}-g-dead", 1)  # of messages that were dead letters before
        assert dead_letters(namesrv, f"{name}-g-dead") == [b"bad"]


@pytest.mark.long
def test_the_java_client_reaches_the_proxy_over_tls(
    of_java: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It accepts the certificate that the proxy generates."""
    namesrv, endpoint = of_java
    name = prepared(namesrv, request)
    probe(client_named("java").command, endpoint, name, "tls", tmp_path, ["normal", "push", "transaction"])


@pytest.mark.long
def test_a_client_with_one_endpoint_uses_masters_of_both_kinds(
    java: JavaPeer, servers: OurServers, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    namesrv = servers.serve(**SETTINGS).namesrv
    java.broker(namesrv, name="broker-j", conf=SETTINGS)
    with our_proxy(namesrv, tmp_path / "log") as endpoint:
        name = prepared(namesrv, request)
        probe(client_named("python").command, endpoint, name, "plain", tmp_path, MODES)
        for mode in ("normal", "tag", "sql"):
            counts = stored(namesrv, f"{name}-{mode}")
            assert len(counts) == 2
            assert all(counts.values()), "each master has some of the messages"
