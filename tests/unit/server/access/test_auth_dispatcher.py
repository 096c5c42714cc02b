"""Access control of a server: codes that need no signature or no permission."""

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.server import Peer
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import Credentials

ROOT = Credentials("root", "root-secret")


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
