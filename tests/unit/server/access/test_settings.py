"""Keys and values of access control: what they mean, and which are refused."""

import pytest

from rocketmq_py.core.access.permissions import User
from rocketmq_py.errors import ConfigError
from rocketmq_py.server.access import settings as module
from rocketmq_py.server.access.settings import AccessSettings, split
from rocketmq_py.wire.signing import Credentials

DEFAULT = "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider"
ACCOUNTS = "accounts:\n- accessKey: anna\n  secretKey: a-secret-of-anna\n"


def test_without_keys_nothing_is_checked():
    assert AccessSettings.of({}) == AccessSettings(
        authentication_enabled=False, authorization_enabled=False, init_user=None, inner=None, plain=None,
        authentication_whitelist=frozenset(), authorization_whitelist=frozenset(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("authentication", "authorization", "found"),
    [("true", "false", (True, False)), ("TRUE", "True", (True, True)), ("false", "false", (False, False))],
)
def test_each_check_has_a_switch(authentication, authorization, found):
    settings = AccessSettings.of({"authenticationEnabled": authentication, "authorizationEnabled": authorization})
    assert (settings.authentication_enabled, settings.authorization_enabled) == found


def test_permissions_need_signatures():
    with pytest.raises(ConfigError, match="authorizationEnabled needs authenticationEnabled"):
        AccessSettings.of({"authorizationEnabled": "true"})


@pytest.mark.parametrize(
    "key", ["authenticationEnabled", "authorizationEnabled", "aclEnable", "migrateAuthFromV1Enabled"]
)
def test_a_switch_is_true_or_false(key):
    with pytest.raises(ConfigError, match=key):
        AccessSettings.of({key: "maybe"})


def test_all_faults_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        AccessSettings.of({
            "authenticationEnabled": "x", "authenticationProvider": "com.example.Mine",
            "authorizationProvider": "com.example.Yours", "migrateAuthFromV1Enabled": " True ",
        })  # fmt: skip
    faults = str(caught.value).split("; ")
    assert "authenticationProvider is 'com.example.Mine': this server has DefaultAuthenticationProvider only" in faults
    assert "authorizationProvider is 'com.example.Yours': this server has DefaultAuthorizationProvider only" in faults
    assert any(fault.startswith("authenticationEnabled") for fault in faults)
    assert any(fault.startswith("migrateAuthFromV1Enabled is 'true': this server does not convert") for fault in faults)


@pytest.mark.parametrize("provider", ["", "  ", DEFAULT, f" {DEFAULT} "])
def test_the_default_provider_may_be_named(provider):
    assert AccessSettings.of({"authenticationProvider": provider}) == AccessSettings()
    assert AccessSettings.of({"migrateAuthFromV1Enabled": "false"}) == AccessSettings()


def test_the_first_user_may_do_everything():
    found = AccessSettings.of({"initAuthenticationUser": '{"username": "root", "password": "pw"}'})
    assert found.init_user == User(name="root", password="pw", is_super=True)
    assert found.inner is None


@pytest.mark.parametrize(("more", "token"), [("", None), (', "securityToken": "t"', "t")])
def test_a_server_signs_with_its_credentials(more, token):
    found = AccessSettings.of({"innerClientAuthenticationCredentials": f'{{"accessKey": "a", "secretKey": "s"{more}}}'})
    assert found.inner == Credentials("a", "s", token)
    assert found.init_user is None


@pytest.mark.parametrize("key", ["initAuthenticationUser", "innerClientAuthenticationCredentials"])
@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"username": "u"}', '{"username": "u", "password": ""}', '{"accessKey": "a"}', '{"a": 1}'],
)
def test_incomplete_credentials_are_refused_without_their_secret(key, text):
    with pytest.raises(ConfigError, match=f"{key} is invalid: .* is expected"):
        AccessSettings.of({key: text})
    assert AccessSettings.of({key: "  "}) == AccessSettings()


@pytest.mark.parametrize(
    ("text", "codes"), [("", set()), (" , ", set()), ("105", {105}), ("105, 34 ,105", {34, 105}), ("0", {0})]
)
def test_whitelists_have_request_codes(text, codes):
    one = AccessSettings.of({"authenticationWhitelist": text})
    assert (one.authentication_whitelist, one.authorization_whitelist) == (codes, set())
    other = AccessSettings.of({"authorizationWhitelist": text})
    assert (other.authentication_whitelist, other.authorization_whitelist) == (set(), codes)


@pytest.mark.parametrize("text", ["105;34", "x", "-1", "1.0"])
def test_a_whitelist_of_other_words_is_refused(text):
    with pytest.raises(ConfigError, match=r"authorizationWhitelist is .*request codes"):
        AccessSettings.of({"authorizationWhitelist": text})


def test_keys_of_access_control_are_split_off():
    others, settings = split({
        "brokerName": "b", "authenticationEnabled": "true", "userCacheMaxNum": "5", "aclEnable": "false",
        "authorizationWhitelist": "1", "rocketmq.acl.plain.file": "none",
    })  # fmt: skip
    assert others == {"brokerName": "b"}
    assert (settings.authentication_enabled, settings.authorization_whitelist) == (True, {1})


# -- the permission file of version 4


def test_a_permission_file_switches_both_checks_on(tmp_path):
    path = tmp_path / "acl.yml"
    path.write_text(ACCOUNTS)
    found = AccessSettings.of({"aclEnable": "TRUE", "rocketmq.acl.plain.file": str(path)})
    assert (found.authentication_enabled, found.authorization_enabled) == (True, True)
    assert found.plain is not None
    assert len(found.plain.accounts) == 1
    off = AccessSettings.of({"aclEnable": "false", "rocketmq.acl.plain.file": str(path)})
    assert off == AccessSettings()


def test_the_permission_file_is_in_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(ConfigError, match="aclEnable is set, but"):
        AccessSettings.of({"aclEnable": "true"})
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"conf/plain_acl\.yml cannot be read: No such file"):
        AccessSettings.of({"aclEnable": "true"})
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    assert AccessSettings.of({"aclEnable": "true"}).plain is not None


def test_no_more_of_a_permission_file_is_read_than_shows_that_it_is_too_large(tmp_path, monkeypatch):
    texts = []
    monkeypatch.setattr(module, "read_plain_acl", texts.append)
    path = tmp_path / "acl.yml"
    path.write_text("#" * 1_048_580)
    AccessSettings.of({"aclEnable": "true", "rocketmq.acl.plain.file": str(path)})
    assert [len(text) for text in texts] == [1_048_577]


def test_a_malformed_permission_file_is_named(tmp_path):
    path = tmp_path / "acl.yml"
    path.write_text("accounts: 5\n")
    with pytest.raises(ConfigError, match=r"acl\.yml, "):
        AccessSettings.of({"aclEnable": "true", "rocketmq.acl.plain.file": str(path)})
