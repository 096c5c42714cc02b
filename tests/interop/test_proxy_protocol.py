"""Java's clients behind a load balancer that writes PROXY headers in front of our broker."""

from __future__ import annotations

from rocketmq_py import Admin
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import await_readable
from tests.server.proxied import LoadBalancer

BINARY = bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 000c cb007107 0a000001 c350 2a9f")


def test_a_java_client_behind_a_load_balancer_has_its_own_address(java: JavaPeer, servers: OurServers) -> None:
    ours = servers.serve(None, "--host", "127.0.0.1", "--advertise", "127.0.0.2", proxyProtocolSources="127.0.0.1")
    port = ours.broker.rpartition(":")[2]
    with LoadBalancer(f"127.0.0.1:{port}", BINARY, f"127.0.0.2:{port}") as balancer, Admin(ours.namesrv) as admin:
        admin.create_topic("behind", 1)
        sent = java.produce(ours.namesrv, "behind", 3)
        await_readable(ours.namesrv, "behind", 3)
        assert {admin.message(row["offsetMsgId"]).born_host for row in sent} == {"203.0.113.7:50000"}
        seen = java.consume(ours.namesrv, "behind", "g-behind", 3)
        assert {row["msgId"] for row in seen} == {row["msgId"] for row in sent}
        assert balancer.connections >= 2
