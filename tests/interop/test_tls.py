"""TLS with Java: its clients on our enforcing port, our clients on its."""

from __future__ import annotations

import pytest

from rocketmq_py import Message, Producer, SimpleConsumer, TlsOptions
from tests.certificates import Authority, Pair
from tests.interop.javapeer import JavaPeer, JavaServer, PeerError, Row
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import eventually

CLIENT = "-Dtls.enable=true -Dtls.test.mode.enable=false -Dtls.client.authServer=true -Dtls.client.trustCertPath={ca}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("server")


@pytest.fixture(scope="module")
def enforcing(servers: OurServers, pair: Pair) -> OurServer:
    return servers.serve(None, "--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--tls-mode", "enforcing")


@pytest.fixture(scope="module")
def java_enforcing(java: JavaPeer, pair: Pair) -> JavaServer:
    """A Java broker that takes TLS only, at a Java name server that takes both."""
    keys = {"mode": "enforcing", "certPath": pair.cert, "keyPath": pair.key}
    words = " ".join(f"-Dtls.server.{key}={value}" for key, value in keys.items())
    namesrv = java.namesrv(java_options="-Dtls.server.mode=permissive")
    return java.broker(namesrv.address, java_options=f"-Dtls.test.mode.enable=false {words}")


@pytest.fixture(scope="module")
def fresh(servers: OurServers) -> OurServer:
    """Our broker and name server without any setting of TLS."""
    return servers.serve(None)


@pytest.fixture(scope="module")
def java_fresh(java: JavaPeer) -> JavaServer:
    """A Java broker and name server with TLS as it is by default."""
    default = "-Dtls.server.mode=permissive"  # the harness switches it off
    return java.broker(java.namesrv(java_options=default).address, java_options=default)


def produced_in_time(java: JavaPeer, namesrv: str, options: str) -> tuple[str, list[Row]]:
    """A Java client gives its first request, TLS and all, three seconds: more than one try, each with its own topic."""
    for attempt in range(3):
        topic = f"java-to-us-{attempt}"
        try:
            return topic, java.produce(namesrv, topic, 20, java_options=options)
        except PeerError as e:
            if "RemotingTimeoutException" not in str(e):
                raise
            late = e
    raise late


def test_java_clients_use_tls_with_our_servers(java: JavaPeer, enforcing: OurServer, authority: Authority) -> None:
    options = CLIENT.format(ca=authority.ca)
    topic, sent = produced_in_time(java, enforcing.namesrv, options)
    assert len(sent) == 20
    seen = java.consume(enforcing.namesrv, topic, "g-tls", 20, java_options=options)
    assert {row["msgId"] for row in seen} == {row["msgId"] for row in sent}


def test_our_clients_use_tls_with_java_servers(java_enforcing: JavaServer) -> None:
    assert_round_trip(java_enforcing.namesrv)


def test_java_clients_use_tls_with_our_unconfigured_servers(java: JavaPeer, fresh: OurServer) -> None:
    topic, sent = produced_in_time(java, fresh.namesrv, "-Dtls.enable=true")
    assert len(sent) == 20
    seen = java.consume(fresh.namesrv, topic, "g-tls-fresh", 20, java_options="-Dtls.enable=true")
    assert {row["msgId"] for row in seen} == {row["msgId"] for row in sent}
    plain = java.consume(fresh.namesrv, topic, "g-plain-fresh", 20)
    assert {row["msgId"] for row in plain} == {row["msgId"] for row in sent}


def test_our_clients_use_tls_with_unconfigured_java_servers(java_fresh: JavaServer) -> None:
    assert_round_trip(java_fresh.namesrv)


def assert_round_trip(namesrv: str) -> None:
    """Send and receive over TLS without checking certificates."""
    trust = TlsOptions(verify=False)
    with Producer("p-tls", namesrv, tls=trust) as producer:
        sent = {producer.send(Message("us-to-java", b"%d" % n * 1000)).msg_id for n in range(20)}
    found: dict[str, bytes] = {}
    with SimpleConsumer("g-tls", namesrv, tls=trust) as consumer:
        consumer.subscribe("us-to-java")

        def look() -> set[str]:
            for message in consumer.receive():
                consumer.ack(message)
                found[message.msg_id] = message.body
            return set(found)

        assert eventually(look, lambda seen: seen >= sent) == sent
