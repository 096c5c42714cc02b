"""Access control with Java: its clients on our guarded broker, mqadmin for users and permissions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketmq_py import Admin, BrokerError, Credentials
from rocketmq_py.arrow.options.security import Security
from rocketmq_py.arrow.remoting.connection import connect
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.protocol.headers.transaction import EndTransactions
from tests.interop.javapeer import JavaPeer, PeerError
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import eventually
from tests.spark.exactsink import Sink

ROOT = Credentials("root", "root-secret")


SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "inner-secret"}),
}


@pytest.fixture(scope="module")
def guarded(servers: OurServers) -> OurServer:
    """Our name server and broker, which ask for signatures and permissions."""
    return with_topic(servers.serve(**SETTINGS))


@pytest.fixture(scope="module")
def guarded_broker(servers: OurServers) -> OurServer:
    """Our broker that asks for them, at a name server that does not."""
    return with_topic(servers.serve(None, "--namesrv", servers.namesrv().namesrv, **SETTINGS))


def with_topic(server: OurServer) -> OurServer:
    with Admin(server.namesrv, credentials=ROOT) as admin:
        admin.create_topic("guarded", 4)
    return server


def test_a_java_client_with_credentials_produces_and_consumes(java: JavaPeer, guarded: OurServer) -> None:
    acl = f"{ROOT.access_key}:{ROOT.secret_key}"
    sent = java.produce(guarded.namesrv, "guarded", 20, acl=acl)
    seen = java.consume(guarded.namesrv, "guarded", "g-guarded", 20, acl=acl)
    assert {row["msgId"] for row in seen} == {row["msgId"] for row in sent}


@pytest.mark.parametrize("options", [{}, {"acl": "root:wrong"}])
def test_java_clients_without_credentials_are_refused(
    java: JavaPeer, guarded_broker: OurServer, options: dict[str, str]
) -> None:
    """What the broker says a Java producer does not pass on; that nothing was stored can be seen."""
    with pytest.raises(PeerError, match="still failed"):
        java.produce(guarded_broker.namesrv, "guarded", 1, **options)
    with Admin(guarded_broker.namesrv, credentials=ROOT) as admin:
        assert {extent.max_offset for extent in admin.topic_stats("guarded").values()} == {0}


def test_mqadmin_manages_users_and_permissions(java: JavaPeer, our_server: OurServer) -> None:
    broker = ("-b", our_server.broker)
    java.admin("createUser", *broker, "-u", "anna", "-p", "first", "-t", "Normal")
    assert "existed" in java.say_admin("createUser", *broker, "-u", "anna", "-p", "first", "-t", "Normal")
    java.admin("updateUser", *broker, "-u", "anna", "-s", "disable")
    assert "disable" in java.admin("getUser", *broker, "-u", "anna")
    assert "anna" in java.admin("listUser", *broker)
    java.admin("createAcl", *broker, "-s", "User:anna", "-r", "Topic:orders,Group:g-*", "-a", "Pub,Sub", "-d", "Allow")
    java.admin(
        "updateAcl", *broker, "-s", "User:anna", "-r", "Topic:orders", "-a", "Pub", "-i", "10.0.0.0/8", "-d", "Deny"
    )
    listed = java.admin("listAcl", *broker)
    shown = java.admin("getAcl", *broker, "-s", "User:anna")
    for text in (listed, shown):
        assert "Topic:orders" in text
        assert "Group:g-*" in text
        assert "Deny" in text
        assert "10.0.0.0/8" in text
    java.admin("deleteAcl", *broker, "-s", "User:anna", "-r", "Topic:orders")
    assert "Topic:orders" not in java.admin("getAcl", *broker, "-s", "User:anna")
    java.admin("deleteUser", *broker, "-u", "anna")
    eventually(lambda: java.say_admin("listUser", *broker), lambda text: "anna" not in text)


@pytest.fixture(scope="module")
def java_guarded(java: JavaPeer) -> str:
    """The name server of a Java broker that asks for signatures and permissions."""
    broker = java.broker(java.namesrv().address, conf=SETTINGS | {
        "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider":
            "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
        "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider":
            "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
    })  # fmt: skip
    return broker.namesrv


@pytest.mark.parametrize("side", ["ours", "java"])
def test_our_admin_manages_users_and_permissions(request: pytest.FixtureRequest, side: str) -> None:
    namesrv = request.getfixturevalue("java_guarded") if side == "java" else request.getfixturevalue("guarded").namesrv
    with Admin(namesrv, credentials=ROOT) as admin:
        admin.create_user("bert", "first")
        with pytest.raises(BrokerError, match="existed"):
            admin.create_user("bert", "second")
        assert [(one.username, one.user_type, one.user_status) for one in admin.users("ber")] == [
            ("bert", "Normal", "enable")
        ]
        admin.update_user("bert", enabled=False)
        found = admin.user("bert")
        assert found is not None
        assert found.user_status == "disable"
        admin.update_user("bert", password="third", enabled=True)
        assert admin.user("nobody") is None

        admin.set_acl("bert", ["Topic:orders", "Group:g-*"], ["pub", "Sub"])
        admin.set_acl("bert", ["Topic:orders"], ["Pub"], allow=False, source_ips=["10.0.0.0/8"])
        acl = admin.acl("bert")
        assert acl is not None
        (policy,) = acl.policies
        assert {(e.resource, tuple(sorted(e.actions or ())), e.decision, tuple(e.source_ips or ()))
                for e in policy.entries} == {
            ("Topic:orders", ("Pub",), "Deny", ("10.0.0.0/8",)), ("Group:g-*", ("Pub", "Sub"), "Allow", ()),
        }  # fmt: skip
        assert [one.subject for one in admin.acls("bert")] == ["User:bert"]
        admin.delete_acl("bert", "Topic:orders")
        acl = admin.acl("bert")
        assert acl is not None
        assert [entry.resource for policy in acl.policies for entry in policy.entries] == ["Group:g-*"]
        with Admin(namesrv, credentials=Credentials("bert", "third")) as stranger:  # noqa: SIM117
            with pytest.raises(BrokerError):
                stranger.create_user("carl", "password")
        admin.delete_acl("bert")
        assert admin.acls("bert") == []
        admin.delete_user("bert")
        assert admin.user("bert") is None


def unknown_to_java(topic: str) -> dict[RequestCode, Header]:
    """Our own requests about transactions."""
    send = SendMessageV2(
        producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=4,
        born_timestamp=0, flag=0, batch=True,
    )  # fmt: skip
    return {
        RequestCode.SEND_HALF_MESSAGES: send,
        RequestCode.END_TRANSACTIONS: EndTransactions(producer_group="p", commit_or_rollback=12, topic=topic),
    }


@pytest.mark.parametrize("side", ["ours", "java"])
@pytest.mark.parametrize("who", ["root", "publisher"])
def test_exactly_once_rows_need_publish_permission(
    request: pytest.FixtureRequest, side: str, who: str, tmp_path: Path
) -> None:
    """A Java broker that asks for permissions, too, says that it does not know batches of half messages."""
    namesrv = request.getfixturevalue("java_guarded") if side == "java" else request.getfixturevalue("guarded").namesrv
    topic, user = f"paid-{who}", ROOT
    with Admin(namesrv, credentials=ROOT) as admin:
        admin.create_topic(topic, 4)
        if who != "root":
            user = Credentials(who, "secret")
            admin.create_user(user.access_key, user.secret_key)
            admin.set_acl(user.access_key, [f"Topic:{topic}"], ["Pub"])
        ((address,),) = (brokers.values() for brokers in admin.route(topic).brokers.values())
        sink = Sink(namesrv, topic, tmp_path, credentials=user)
        for code, header in unknown_to_java(topic).items():
            connection = connect(address, 10, Security(credentials=user))
            connection.send([(code, header.to_ext(), b"")])
            assert (connection.receive().code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED) == (side == "java")
            connection.close()
        sink.committer().commit([sink.task(range(40)), sink.task(range(40, 50), partition=1)], 0)
        sink.committer().abort([sink.task(range(50, 60), batch_id=1)], 1, complete=False)
        eventually(
            lambda: sorted(int(m.body) for queue in admin.queues(topic) for m in admin.read(queue)),
            lambda rows: rows == list(range(50)),
        )
