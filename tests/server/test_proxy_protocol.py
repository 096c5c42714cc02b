"""Clients behind a load balancer that writes PROXY headers: their address is theirs, whatever they speak."""

import ssl

import pytest

from rocketmq_py import Admin, Credentials
from rocketmq_py.protocol.bodies.client import HeartbeatData, ProducerData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.proxy_header import SIGNATURES
from tests.server.grpcpeer import GrpcPeer
from tests.server.proxied import LoadBalancer
from tests.server.rawpeer import RawPeer
from tests.server.test_grpc import new_message, receive, send, send_code, signed

LINE = b"PROXY TCP4 203.0.113.7 10.0.0.1 50000 10911\r\n"
BINARY = SIGNATURES[1] + bytes.fromhex(
    "2121 0024 20010db8000000000000000000000007 00000000000000000000000000000001 c3502a9f"
)
SOURCES = [
    pytest.param(LINE, "203.0.113.7:50000", id="version-1"),
    pytest.param(BINARY, "[2001:db8::7]:50000", id="version-2"),
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    with Cluster(tls={"tls.server.mode": "permissive"}, proxy_protocol_sources="127.0.0.1") as running:
        yield running


@pytest.mark.parametrize(("header", "source"), SOURCES)
def test_a_client_of_remoting_has_its_own_address(cluster, topic, group, header, source):
    message = SendMessageV2(
        producer_group=group, topic=topic, default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=0, flag=0, properties="",
    )  # fmt: skip
    beat = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name=group)])
    with LoadBalancer(cluster.addresses[0], header) as balancer, RawPeer(balancer.address) as peer:
        assert peer.ask(RequestCode.HEART_BEAT, body=beat.encode()).code == 0
        sent = peer.ask(RequestCode.SEND_MESSAGE_V2, message.to_ext(), b"x")
        assert sent.code == 0
        with Admin(cluster.namesrv) as admin:
            assert admin.message(sent.ext["msgId"]).born_host == source.replace("::", ":0:0:0:0:0:")  # as Java
            assert [member.client_addr for member in admin.producer_members(group)] == [source]


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(("header", "source"), SOURCES)
def test_a_client_of_grpc_has_its_own_address(cluster, topic, group, header, source, tls):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if tls else None
    if context is not None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
    with LoadBalancer(cluster.addresses[0], header) as balancer, GrpcPeer(balancer.address, group, tls=context) as peer:
        peer.consume(topic, group)
        send(peer, new_message(topic, b"x"))
        [got] = receive(peer, topic, group)[1]
        assert got.system_properties.born_host == source


def test_a_client_without_a_header_has_the_address_of_its_connection(cluster, topic, group):
    with GrpcPeer(cluster.addresses[0], group) as peer:
        peer.consume(topic, group)
        send(peer, new_message(topic, b"x"))
        [got] = receive(peer, topic, group)[1]
        assert got.system_properties.born_host.startswith("127.0.0.1:")


def test_a_second_header_is_no_header(cluster):
    with LoadBalancer(cluster.addresses[0], LINE + LINE) as balancer, RawPeer(balancer.address) as peer:
        assert peer.is_closed
    with RawPeer(cluster.addresses[0]) as peer:
        assert peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == 0


def test_permissions_are_those_of_the_client_s_address():
    access = {"authenticationEnabled": "true", "authorizationEnabled": "true",
              "initAuthenticationUser": '{"username":"root","password":"secret"}',
              "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"secret"}'}  # fmt: skip
    with Cluster(access=access, proxy_protocol_sources="127.0.0.0/8") as cluster:
        with Admin(cluster.namesrv, credentials=Credentials("root", "secret")) as admin:
            admin.create_topic("mine", 1)
            admin.create_user("alice", "wonder")
            admin.set_acl("alice", ["Topic:mine"], ["Pub"], source_ips=["203.0.113.7"])
        address, metadata = cluster.addresses[0], signed("alice", "wonder")
        for header, expected in (
            (LINE, Code.OK),
            (BINARY, Code.UNAUTHORIZED),
            (b"PROXY UNKNOWN\r\n", Code.UNAUTHORIZED),
        ):
            with LoadBalancer(address, header) as balancer, GrpcPeer(balancer.address, **metadata) as peer:
                assert send_code(peer, new_message("mine")) == expected
        with GrpcPeer(address, **metadata) as peer:
            assert send_code(peer, new_message("mine")) == Code.UNAUTHORIZED
