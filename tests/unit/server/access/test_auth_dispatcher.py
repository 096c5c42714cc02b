"""Access control of a server: codes that need no signature or no permission."""

import hmac
import logging

import pytest

from rocketmq_py.core.access.permissions import Action, RequiredPermission, User, topic
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.server import Peer
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import Credentials

ROOT = Credentials("root", "root-secret")
GUEST = Credentials("guest", "guest-secret")
HOME = Peer(("10.1.2.3", 5))
NOT_SIGNED = "the request is not signed: this server requires credentials (an access key and a secret key)"


def control(**lists):
    settings = {
        "authenticationEnabled": "true", "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username": "root", "password": "root-secret"}', **lists,
    }  # fmt: skip
    return AuthDispatcher(AccessSettings.of(settings), lambda: None, lambda _: None, "c")


def admits(access, code, credentials=None):
    ext = {"topic": "t"}
    reply = access.admit(Peer(), Command(code, ext=credentials.signed(ext, b"") if credentials else ext))
    assert reply is None or reply.code == ResponseCode.NO_PERMISSION
    return reply is None


@pytest.mark.parametrize(("lists", "unsigned", "signed_by_root"), [
    ({}, False, True),
    ({"authenticationWhitelist": "105"}, False, True),
    ({"authorizationWhitelist": "105"}, False, True),
    ({"authenticationWhitelist": "105", "authorizationWhitelist": "105"}, True, True),
    ({"authenticationWhitelist": "105", "authorizationEnabled": "false"}, True, True),
])  # fmt: skip
def test_requests_without_a_signature_may_need_a_permission(lists, unsigned, signed_by_root):
    access = control(**lists)
    assert admits(access, Code.GET_ROUTEINFO_BY_TOPIC) is unsigned
    assert admits(access, Code.GET_ROUTEINFO_BY_TOPIC, ROOT) is signed_by_root
    assert not admits(access, Code.GET_BROKER_CONFIG)


def test_requests_without_required_permissions_need_no_signature():
    access = control(authenticationWhitelist=str(int(Code.GET_BROKER_CLUSTER_INFO)))
    assert admits(access, Code.GET_BROKER_CLUSTER_INFO)


def test_a_wrong_signature_is_refused_even_where_none_is_needed():
    access = control(authenticationWhitelist="105")
    assert not admits(access, Code.GET_ROUTEINFO_BY_TOPIC, Credentials("root", "guess"))


def test_a_heartbeat_without_a_permission_is_one_warning(caplog):
    access = control()
    body = b'{"clientID":"me"}'
    assert access.admit(Peer(), Command(Code.HEART_BEAT, body=body, language="GO")) is not None
    assert access.admit(Peer(), Command(Code.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "t"})) is not None
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("the heartbeat of client 'me' (GO) at ")


def with_guest(**lists):
    """root, guest who may send to topic t from two networks, and eve who is disabled."""
    access = control(**lists)
    access.table.create_user(User(name="guest", password="guest-secret"))
    access.table.create_user(User(name="eve", password="eve-secret", enabled=False))
    entry = EntryInfo(resource="Topic:t", actions=["Pub"], decision="Allow", source_ips=["10.0.0.0/8", "::1"])
    list(access.table.put_acl("User:guest", AclInfo(policies=[PolicyInfo(entries=[entry])])))
    return access


def test_a_server_signs_only_with_the_credentials_of_its_settings():
    inner = '{"accessKey": "a", "secretKey": "s"}'
    assert control(innerClientAuthenticationCredentials=inner).inner == Credentials("a", "s")
    assert control().inner is None
    assert control().enabled is True
    assert control(authenticationEnabled="false", authorizationEnabled="false").enabled is False


def remark(access, credentials, name="t", peer=HOME, stored=(), sent=None):
    """Why a send to a topic is refused; None if it is admitted. ``sent``: header fields added after the signature."""
    ext = {"b": name} if credentials is None else credentials.signed({"b": name}, b"x")
    command = Command(Code.SEND_MESSAGE_V2, ext={**ext, **(sent or {})}, body=b"x")
    wanted = [RequiredPermission(topic(one), (Action.PUB,)) for one in stored]
    reply = access.admit(peer, command, lambda request: wanted if request is command else [])
    assert reply is None or reply.code == ResponseCode.NO_PERMISSION
    return reply and reply.remark


def test_a_refusal_says_what_is_missing(caplog):
    caplog.set_level(logging.DEBUG)
    access = with_guest()
    stored = "User:guest has no permission for the topic of the stored message"
    denied = "User:guest has no permission to access Topic:{} from {} (Pub is needed), no matched policies."
    cases = [
        (None, remark(access, ROOT, "anything", stored=["secret"])),
        (None, remark(access, GUEST)),
        (None, remark(access, GUEST, peer=Peer(("::1", 5)))),
        (None, remark(access, GUEST, stored=["t"])),
        (stored, remark(access, GUEST, stored=["t", "secret"])),
        (denied.format("u", "10.1.2.3"), remark(access, GUEST, "u")),
        (denied.format("t", "11.0.0.1"), remark(access, GUEST, peer=Peer(("11.0.0.1", 5)))),
        (denied.format("t", "::2"), remark(access, GUEST, peer=Peer(("::2", 5)))),
        (NOT_SIGNED, remark(access, None)),
        (NOT_SIGNED, remark(access, GUEST, sent={"AccessKey": ""})),
        ("User:nobody is not found.", remark(access, Credentials("nobody", "x"))),
        ("User:eve is disabled.", remark(access, Credentials("eve", "eve-secret"))),
        ("check signature failed.", remark(access, Credentials("guest", "guess"))),
        ("check signature failed.", remark(access, GUEST, sent={"e": "1"})),
        ("check signature failed.", remark(access, GUEST, sent={"Signature": ""})),
    ]
    assert [(wanted, found) for wanted, found in cases if wanted != found] == []
    undecided = remark(access, GUEST, sent={"e": "\ud800"})
    assert undecided.startswith("its permissions cannot be determined: ")
    messages = [record.getMessage() for record in caplog.records]
    assert f"request 310 of 10.1.2.3:5 is refused: {stored}" in messages


def test_users_without_a_permission_are_admitted_where_none_is_needed():
    for lists in ({"authorizationEnabled": "false"}, {"authorizationWhitelist": "310"}):
        access = with_guest(**lists)
        assert remark(access, GUEST, "u", stored=["secret"]) is None
        assert remark(access, None) == NOT_SIGNED


class Run:
    """Sends of these kinds; the keys with which they are to be verified."""

    def __init__(self, *senders):
        self._kinds = [(name, 0, 0, "", user) for name, user in senders]

    def kinds(self):
        return self._kinds

    def verified(self, keys):
        return keys


SENDERS = [("t", "root"), ("t", "guest"), ("u", "guest"), ("t", "eve"), ("t", "nobody"), ("t", ""), ("t", "odd")]


@pytest.mark.parametrize(("lists", "peer", "keys"), [
    ({}, HOME, [b"root-secret", b"guest-secret", None, None, None, None, None]),
    ({}, Peer(("11.0.0.1", 5)), [b"root-secret", None, None, None, None, None, None]),
    ({"authorizationEnabled": "false"}, HOME, [b"root-secret", b"guest-secret", b"guest-secret", *[None] * 4]),
    ({"authorizationWhitelist": "310"}, HOME, [b"root-secret", b"guest-secret", b"guest-secret", *[None] * 4]),
    ({"authenticationWhitelist": "310"}, HOME, []),
])  # fmt: skip
def test_a_run_is_verified_with_the_keys_of_those_who_may_send(lists, peer, keys):
    access = with_guest(**lists)
    access.table.create_user(User(name="odd", password="\ud800", is_super=True))
    assert access.admit_run(peer, Run(*SENDERS)) == keys


def denial(access, name, secret="guest-secret", code=Code.SEND_MESSAGE_V2, wanted=("t",), peer=HOME, signed=b"now"):
    """Why a call of gRPC is refused that ``name`` has signed with ``secret``; None if it is admitted."""
    signature = hmac.new(secret.encode(), b"now", "sha1").hexdigest()
    needed = [RequiredPermission(topic(one), (Action.PUB,)) for one in wanted]
    return access.denial_of_signed(peer, code, name, signed, signature.upper(), needed)


def test_a_call_of_grpc_is_judged_as_a_request_of_remoting():
    access = with_guest()
    assert denial(access, "guest") is None
    assert denial(access, "root", "root-secret", wanted=["anything"]) is None
    assert denial(access, "guest", wanted=["t", "u"]) == (
        "User:guest has no permission to access Topic:u from 10.1.2.3 (Pub is needed), no matched policies."
    )
    assert denial(access, "guest", peer=Peer(("11.0.0.1", 5))) is not None
    assert denial(access, "") == "username cannot be null."
    assert denial(access, "nobody") == "User:nobody is not found."
    assert denial(access, "eve", "eve-secret") == "User:eve is disabled."
    assert denial(access, "guest", "guess") == "check signature failed."
    assert denial(access, "guest", signed=b"later") == "check signature failed."
    assert access.denial_of_signed(HOME, 310, "guest", b"now", "\ud800", []) == "check signature failed."


def test_whitelists_hold_for_calls_of_grpc():
    code = str(int(Code.SEND_MESSAGE_V2))
    unsigned = with_guest(authenticationWhitelist=code)
    assert denial(unsigned, "") == "username cannot be null."
    assert denial(unsigned, "", wanted=[]) is None
    assert denial(unsigned, "guest", wanted=["u"]) is not None
    anything = with_guest(authorizationWhitelist=code)
    assert denial(anything, "guest", wanted=["u"]) is None
    assert denial(anything, "") == "username cannot be null."
    assert denial(with_guest(authenticationWhitelist=code, authorizationWhitelist=code), "") is None
    assert denial(with_guest(authorizationEnabled="false"), "guest", wanted=["u"]) is None
    assert denial(with_guest(authorizationEnabled="false"), "guest", "guess") == "check signature failed."
