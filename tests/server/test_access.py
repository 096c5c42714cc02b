"""Access control of our servers: signatures, permissions, refusals, and stored users."""

import functools
import json
import stat
import threading

import pytest
from click.testing import CliRunner

from rocketmq_py import (
    Admin,
    BrokerError,
    ConsumeFromWhere,
    Credentials,
    Message,
    Producer,
    PushConsumer,
    SendStatus,
    SimpleConsumer,
)
from rocketmq_py.cli import main
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.access import DeleteAcl, ListUsers, SubjectHeader, UserHeader
from rocketmq_py.protocol.headers.base import NoHeader
from rocketmq_py.protocol.headers.group import GetConsumeStats
from rocketmq_py.protocol.headers.topic import GetRouteInfo
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.frame import encode_frame
from tests.server.rawpeer import RawPeer

ROOT = Credentials("root", "root-secret")
BROKER = Credentials("the-broker", "broker-secret")
GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}),
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": BROKER.access_key, "secretKey": BROKER.secret_key}
    ),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with Cluster(store_dir=tmp_path_factory.mktemp("guarded"), access=GUARDED) as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("others")
        yield cluster


def administer(cluster, code, header, body=b"", who=ROOT):
    """What the broker answers to one request of an administrator."""

    async def ask():
        connections = ConnectionPool(credentials=who)
        try:
            return await connections.invoke(cluster.addresses[0], code, header, body)
        finally:
            await connections.close()

    return cluster._run(ask())


def add_user(cluster, name, secret="its-secret", **more):
    body = UserInfo(password=secret, **more).encode()
    administer(cluster, Code.AUTH_CREATE_USER, UserHeader(username=name), body)
    return Credentials(name, secret)


def allow(cluster, name, *resources, actions=("Pub", "Sub"), decision="Allow", ips=None):
    entries = [EntryInfo(resource=one, actions=list(actions), decision=decision, source_ips=ips) for one in resources]
    body = AclInfo(policies=[PolicyInfo(entries=entries)]).encode()
    administer(cluster, Code.AUTH_CREATE_ACL, SubjectHeader(subject=f"User:{name}"), body)


def refused(send, *words):
    with pytest.raises(BrokerError) as found:
        send()
    assert found.value.code == ResponseCode.NO_PERMISSION
    for word in words:
        assert word in str(found.value)


def send(cluster, who, topic="orders"):
    with Producer("shop", cluster.namesrv, credentials=who, retries=0) as producer:
        return producer.send(Message(topic, b"hello"))


def test_unsigned_and_badly_signed_requests_are_refused(guarded):
    refused(lambda: send(guarded, None), "the request is not signed")
    refused(lambda: send(guarded, Credentials("root", "guess")), "check signature failed")
    refused(lambda: send(guarded, Credentials("nobody", "guess")), "User:nobody is not found")


def test_errors_and_logs_contain_no_secret(guarded, caplog):
    caplog.set_level("DEBUG")
    with pytest.raises(BrokerError) as found:
        send(guarded, Credentials("root", "a-wrong-secret"))
    assert "secret" not in str(found.value)
    assert "a-wrong-secret" not in caplog.text
    assert "root-secret" not in caplog.text


def test_a_signature_is_valid_for_its_request_only(guarded):
    """A replayed signature on any other request is a wrong one."""
    signed = ROOT.signed(GetRouteInfo(topic="orders").to_ext(), b"")

    class Replay:
        def signed(self, ext, body):
            return {**ext, "AccessKey": signed["AccessKey"], "Signature": signed["Signature"]}

    answer = administer(guarded, Code.AUTH_GET_USER, UserHeader(username="root"))
    assert UserInfo.decode(answer.body).username == "root"
    refused(
        lambda: administer(guarded, Code.AUTH_GET_USER, UserHeader(username="root"), who=Replay()),
        "check signature failed",
    )


def test_users_can_do_only_what_they_are_allowed(guarded):
    who = add_user(guarded, "anna")
    refused(
        lambda: send(guarded, who), "User:anna has no permission to access Topic:orders", "Pub", "no matched policies"
    )
    allow(guarded, "anna", "Topic:orders", "Group:readers-*")
    assert send(guarded, who).status is SendStatus.SEND_OK
    refused(lambda: send(guarded, who, "others"), "Topic:others")
    with SimpleConsumer("readers-1", guarded.namesrv, credentials=who) as consumer:
        consumer.subscribe("orders")
        (message,) = consumer.receive(1, timeout=60)
        consumer.ack(message)
    with Admin(guarded.namesrv, credentials=who) as admin:
        refused(lambda: admin.create_topic("own"), "Topic:own", "Create")
        refused(lambda: admin.delete_topic("orders"), "Delete")


def test_a_denied_consumer_logs_once_and_continues_when_allowed(guarded, caplog):
    who = add_user(guarded, "reader")
    allow(guarded, "reader", "Topic:orders", actions=["Sub"])
    send(guarded, ROOT)
    seen = threading.Event()
    consumer = PushConsumer(
        "readers", guarded.namesrv, credentials=who, consume_from=ConsumeFromWhere.FIRST_OFFSET,
        listener=lambda _: seen.set(),
    )  # fmt: skip
    consumer.subscribe("orders")
    with consumer:
        assert not seen.wait(3)
        allow(guarded, "reader", "Group:readers", actions=["Sub"])
        assert seen.wait(240)
    told = [record.message for record in caplog.records if "is not consumed for now" in record.message]
    assert len(told) == 1
    assert "topic %RETRY%readers" in told[0]
    assert "no permission to access Group:readers" in told[0]
    assert not [record.message for record in caplog.records if record.exc_info]


def test_the_command_signs_requests(guarded, monkeypatch):
    arguments = ("topic", "ls", "--namesrv", guarded.namesrv, "--access-key", ROOT.access_key)
    for secret, status in (("guess", 1), (ROOT.secret_key, 0)):
        monkeypatch.setenv("ROCKETMQ_SECRET_KEY", secret)
        told = CliRunner().invoke(main, arguments)
        assert told.exit_code == status, told.output
        assert secret not in told.output
    assert "orders" in told.output


def test_denied_addresses_and_disabled_users_are_refused(guarded):
    who = add_user(guarded, "ben")
    allow(guarded, "ben", "Topic:*")
    assert send(guarded, who).status is SendStatus.SEND_OK
    allow(guarded, "ben", "Topic:orders", decision="Deny")
    refused(lambda: send(guarded, who), "the decision is deny")
    allow(guarded, "ben", "Topic:orders", ips=["10.9.9.9"])
    assert send(guarded, who).status is SendStatus.SEND_OK  # Topic:* decides, as the closer one is of other addresses
    administer(guarded, Code.AUTH_UPDATE_USER, UserHeader(username="ben"), UserInfo(user_status="disable").encode())
    refused(lambda: send(guarded, who), "User:ben is disabled")


def test_ordinary_users_cannot_create_super_users(guarded):
    who = add_user(guarded, "carl")
    allow(guarded, "carl", "Cluster:*", actions=["All"])
    body = UserInfo(password="p", user_type="Super").encode()
    with pytest.raises(BrokerError, match="super user can only be create by super user"):
        administer(guarded, Code.AUTH_CREATE_USER, UserHeader(username="evil"), body, who)
    with pytest.raises(BrokerError, match="super user can only be update by super user"):
        administer(guarded, Code.AUTH_DELETE_USER, UserHeader(username="root"), b"", who)


def test_malformed_permissions_change_nothing(guarded):
    add_user(guarded, "dora")
    for entry, complaint in (
        (EntryInfo(resource="Queue:x", actions=["Pub"], decision="Allow"), "is not a resource"),
        (EntryInfo(resource="Topic:x", actions=["Fly"], decision="Allow"), "is not an action"),
        (EntryInfo(resource="Topic:x", actions=[], decision="Allow"), "actions is empty"),
        (EntryInfo(resource="Topic:x", actions=["Pub"], decision="Maybe"), "decision is null or illegal"),
        (EntryInfo(resource="Topic:x", actions=["Pub"], decision="Allow", source_ips=["x"]), "source ip is invalid"),
    ):
        body = AclInfo(policies=[PolicyInfo(entries=[entry])]).encode()
        put = functools.partial(administer, guarded, Code.AUTH_CREATE_ACL, SubjectHeader(subject="User:dora"), body)
        refused(put, complaint)
    assert not administer(guarded, Code.AUTH_GET_ACL, SubjectHeader(subject="User:dora")).body


def test_users_and_permissions_are_stored_for_the_owner_only(tmp_path):
    with Cluster(store_dir=tmp_path, access=GUARDED) as cluster:
        cluster.create_topic("orders")
        who = add_user(cluster, "anna")
        allow(cluster, "anna", "Topic:orders")
        allow(cluster, "anna", "Topic:gone")
        gone = DeleteAcl(subject="User:anna", resource="Topic:gone")
        administer(cluster, Code.AUTH_DELETE_ACL, gone)
    (kept,) = tmp_path.rglob("access.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with Cluster(store_dir=tmp_path, access=GUARDED) as cluster:
        assert send(cluster, who).status is SendStatus.SEND_OK
        found = AclInfo.decode(administer(cluster, Code.AUTH_GET_ACL, SubjectHeader(subject="User:anna")).body)
        assert [entry.resource for policy in found.policies for entry in policy.entries] == ["Topic:orders"]
        administer(cluster, Code.AUTH_DELETE_USER, UserHeader(username="anna"))
        refused(lambda: send(cluster, who), "User:anna is not found")


def test_the_permission_file_of_version_4_is_read_and_not_changed(tmp_path, caplog):
    file = tmp_path / "plain_acl.yml"
    file.write_text(
        "globalWhiteRemoteAddresses: \n- 10.0.0.*\naccounts:\n- accessKey: anna\n  secretKey: anna-secret\n"
        "  defaultTopicPerm: DENY\n  topicPerms:\n  - orders=PUB\n"
        "- accessKey: boss\n  secretKey: boss-secret\n  admin: true\n"
    )
    inner = {"innerClientAuthenticationCredentials": GUARDED["innerClientAuthenticationCredentials"]}
    settings = {"aclEnable": "true", "rocketmq.acl.plain.file": str(file), **inner}
    anna, boss = Credentials("anna", "anna-secret"), Credentials("boss", "boss-secret")
    with Cluster(store_dir=tmp_path / "store", access=settings) as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("others")
        assert send(cluster, anna).status is SendStatus.SEND_OK
        refused(lambda: send(cluster, anna, "others"), "User:anna", "Topic:others", "the decision is deny")
        assert send(cluster, boss, "others").status is SendStatus.SEND_OK
        delete = functools.partial(administer, cluster, Code.AUTH_DELETE_USER, UserHeader(username="anna"), who=boss)
        refused(delete, "is defined in the permission file")
        administer(cluster, Code.AUTH_CREATE_USER, UserHeader(username="new"), UserInfo(password="p").encode(), boss)
    assert "10.0.0.*" in caplog.text
    (kept,) = tmp_path.rglob("access.json")
    assert "boss-secret" not in kept.read_text()
    assert '"new"' in kept.read_text()


def test_an_error_in_the_permission_file_names_file_and_line(tmp_path):
    file = tmp_path / "plain_acl.yml"
    file.write_text("accounts:\n- accessKey: anna\n  secretKey: s\n  admin: false\n\n  topicPerms:\n  - orders=WRITE\n")
    with pytest.raises(ConfigError, match=r"plain_acl\.yml, line 7: 'WRITE' is not a permission"):
        AccessSettings.of({"aclEnable": "true", "rocketmq.acl.plain.file": str(file)})


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"authorizationEnabled": "true"}, "needs authenticationEnabled"),
        ({"authenticationEnabled": "perhaps"}, "true or false is expected"),
        ({"initAuthenticationUser": "root:s3cret"}, "initAuthenticationUser is invalid"),
        ({"authenticationWhitelist": "10,x"}, "request codes with commas"),
        ({"aclEnable": "true", "rocketmq.acl.plain.file": "/nowhere.yml"}, "/nowhere.yml cannot be read"),
    ],
)
def test_invalid_settings_are_refused_without_their_secrets(settings, complaint):
    with pytest.raises(ConfigError, match=complaint) as found:
        AccessSettings.of(settings)
    assert "s3cret" not in str(found.value)


HOSTILE = {
    "fields": b',"extFields":{%s"x":"\xff","y":' + b"[" * 70 + b"]" * 70 + b"}",
    "members": b',"x":"\xff","y":' + b"[" * 70 + b"]" * 70 + b',"extFields":{%s"z":1}',
    "language": b',"language":"\xc2\xb2","extFields":{%s"z":"1"}',
    "code twice": b',"code":105,"code":%d,"extFields":{%s"z":"1"}',
    "too deep": b',"extFields":{%s"y":' + b"[" * 900 + b"]" * 900 + b"}",
    "much too deep": b',"extFields":{%s"y":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}
"""What stands in unsigned headers beside their codes."""

OF_ADMINISTRATORS = [
    ("broker", Code.GET_BROKER_CONFIG, b"", b""),
    ("broker", Code.UPDATE_BROKER_CONFIG, b"", b"maxMessageSize=77777\n"),
    ("broker", Code.AUTH_LIST_USER, b"", b""),
    ("broker", Code.AUTH_GET_USER, b'"username":"root",', b""),
    ("broker", Code.AUTH_CREATE_USER, b'"username":"mallory",',
     UserInfo(username="mallory", password="m", user_type="Super").encode()),
    ("broker", Code.DELETE_TOPIC_IN_BROKER, b'"topic":"orders",', b""),
    ("namesrv", Code.GET_NAMESRV_CONFIG, b"", b""),
    ("namesrv", Code.UPDATE_NAMESRV_CONFIG, b"", b"orderMessageEnable=true\n"),
    ("namesrv", Code.PUT_KV_CONFIG, b'"namespace":"n","key":"k","value":"v",', b""),
]  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize(("server", "code", "fields", "body"), OF_ADMINISTRATORS, ids=lambda value: str(value)[:40])
def test_an_unsigned_header_gives_no_administrator_rights(guarded, kind, server, code, fields, body):
    """Refused, or the connection ends: handler and access check get the same decoded header."""
    rest = HOSTILE[kind] % ((code, fields) if b"%d" in HOSTILE[kind] else (fields,))
    header = b'{"code":%d,"opaque":5,"flag":0%s}' % (code, rest)
    if kind == "code twice":
        header = header.replace(b'{"code":%d,' % code, b"{", 1)
    address = guarded.addresses[0] if server == "broker" else guarded.namesrv
    with RawPeer(address) as peer:
        peer.send(encode_frame(header, body))
        try:
            answer = peer.receive()
        except (AssertionError, ConnectionResetError):
            assert peer.is_closed
        else:
            assert (answer.opaque, answer.code) == (5, ResponseCode.NO_PERMISSION)
            assert answer.body == b""
    users = administer(guarded, Code.AUTH_LIST_USER, ListUsers())
    assert b"mallory" not in users.body
    assert b"maxMessageSize=77777" not in administer(guarded, Code.GET_BROKER_CONFIG, NoHeader()).body


def test_users_see_progress_of_permitted_topics_only(guarded):
    """Also where a request lists topics."""
    who = add_user(guarded, "counter")
    allow(guarded, "counter", "Group:counters", "Topic:orders", actions=["Get"])
    administer(
        guarded, Code.GET_CONSUME_STATS, GetConsumeStats(consumer_group="counters", topic_list="orders;"), who=who
    )
    both = GetConsumeStats(consumer_group="counters", topic_list="orders;others")
    refused(lambda: administer(guarded, Code.GET_CONSUME_STATS, both, who=who), "Topic:others")
