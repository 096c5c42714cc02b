"""TLS settings under Java's names: conversion and checks."""

import os
import ssl
from types import SimpleNamespace

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.server import self_signed, tls as module
from rocketmq_py.server.self_signed import SelfSignedCertificate, generate_certificate
from rocketmq_py.server.tls import (
    CertificateFiles,
    ClientAuth,
    TlsMode,
    TlsSettings,
    server_context,
    split,
    tls_contexts,
)


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """A certificate with its key, in one file."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    generate_certificate(path)
    return path


def test_the_defaults_are_java_s():
    settings = TlsSettings.of({})
    assert settings.server_mode is TlsMode.PERMISSIVE
    assert settings.server_need_client_auth is ClientAuth.NONE
    assert settings.serves_tls
    assert settings.generates_certificate
    assert settings.client_context() is None
    assert not settings.server_auth_client


def test_tls_settings_are_separated_from_others():
    others, tls = split({"brokerName": "b", "tls.server.mode": "Disabled", "tls.server.certPath": "c.pem"})
    assert others == {"brokerName": "b"}
    assert tls.server_mode is TlsMode.DISABLED
    assert not tls.serves_tls


def test_an_enforcing_server_uses_tls_for_its_own_requests():
    enforcing = {"tls.server.mode": "enforcing", "tls.server.certPath": "c.pem"}
    context = TlsSettings.of(enforcing).client_context()
    assert context is not None
    assert not context.check_hostname
    assert TlsSettings.of({**enforcing, "tls.enable": "false"}).client_context() is None


def test_the_tls_file_takes_precedence_except_for_the_mode(tmp_path):
    file = tmp_path / "tls.properties"
    file.write_text(
        "# Java's\ntls.protocols\ntls.test.mode.enable=false\ntls.server.certPath=file.pem\ntls.server.mode=enforcing\n"
    )
    settings = TlsSettings.of({"tls.config.file": str(file), "tls.server.certPath": "given.pem"})
    assert (settings.server_cert_path, settings.server_mode) == ("file.pem", TlsMode.PERMISSIVE)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"tls.server.mod": "enforcing"}, "did you mean 'tls.server.mode'"),
        ({"tls.server.mode": "strict"}, "disabled, permissive, enforcing are possible"),
        ({"tls.server.mode": "enforcing"}, "set tls.server.certPath"),
        ({"tls.server.keyPath": "k"}, "of no use without tls.server.certPath"),
        ({"tls.enable": "yes"}, "true or false is expected"),
        ({"tls.server.need.client.auth": "require"}, "set tls.server.authClient=true and tls.server.trustCertPath"),
        ({"tls.config.file": "/nowhere/tls.properties"}, "/nowhere/tls.properties cannot be read"),
        ({"tls.ciphers": "HIGH"}, "tls.ciphers has no effect here: ciphers and protocols are those of OpenSSL"),
        ({"tls.server.need.client.auth": "optional", "tls.server.authClient": "true"}, "auth is optional, but nothing"),
        ({"tls.server.need.client.auth": "optional", "tls.server.trustCertPath": "ca"}, "auth is optional, but"),
    ],
)
def test_invalid_tls_settings_are_refused(settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        TlsSettings.of(settings)


def test_a_password_is_not_shown():
    settings = TlsSettings.of({"tls.server.certPath": "c", "tls.server.keyPassword": "s3cret"})
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize("key", ["tls.ciphers", "tls.protocols"])
def test_an_empty_setting_of_openssl_is_accepted(key):
    assert TlsSettings.of({key: ""}) == TlsSettings()


def test_the_default_file_is_read_if_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(module, "DEFAULT_CONFIG_FILE", "~/tls.properties")
    assert TlsSettings.of({}) == TlsSettings()
    file = tmp_path / "tls.properties"
    file.write_text("tls.client.certPath=c.pem\ntls.enable=true\ntls.config.file=other\n")
    assert TlsSettings.of({}) == TlsSettings(client_cert_path="c.pem")
    file.unlink()
    file.mkdir()
    assert TlsSettings.of({}) == TlsSettings()
    with pytest.raises(ConfigError, match=r"tls\.config\.file: .*/tls\.properties cannot be read: Is a directory"):
        TlsSettings.of({"tls.config.file": "~/tls.properties"})


def test_keys_set_fields_of_their_kinds():
    given = {
        "tls.server.mode": " Enforcing ", "tls.server.keyPath": "k", "tls.server.keyPassword": "kp",
        "tls.server.certPath": "c", "tls.server.need.client.auth": "REQUIRE", "tls.server.authClient": "TRUE",
        "tls.server.trustCertPath": "t", "tls.test.mode.enable": "false", "tls.enable": "False",
        "tls.client.keyPath": "ck", "tls.client.keyPassword": "ckp", "tls.client.certPath": "cc",
        "tls.client.authServer": "true", "tls.client.trustCertPath": "ct",
    }  # fmt: skip
    settings = TlsSettings.of(given)
    assert settings == TlsSettings(
        server_mode=TlsMode.ENFORCING, server_key_path="k", server_key_password="kp", server_cert_path="c",
        server_need_client_auth=ClientAuth.REQUIRE, server_auth_client=True, server_trust_cert_path="t",
        test_mode=False, enable=False, client_key_path="ck", client_key_password="ckp", client_cert_path="cc",
        client_auth_server=True, client_trust_cert_path="ct",
    )  # fmt: skip
    assert repr(settings) == "TlsSettings(server_mode=enforcing, server_cert_path='c')"


# -- requests of the server to other servers


def test_the_options_of_its_own_requests_are_those_of_the_settings(monkeypatch):
    made = []

    def options(**given):
        made.append(given)
        return SimpleNamespace(context=lambda: "context")

    monkeypatch.setattr(module, "TlsOptions", options)
    bare = {"enable": True}
    full = {
        "enable": True, "client_trust_cert_path": "ca", "client_cert_path": "c", "client_key_path": "k",
        "client_key_password": "p", "client_auth_server": True,
    }  # fmt: skip
    assert [TlsSettings(**one).client_context() for one in (bare, full)] == ["context"] * 2
    assert made == [
        {"ca": None, "cert": None, "key": None, "key_password": None, "verify": False, "check_hostname": False},
        {"ca": "ca", "cert": "c", "key": "k", "key_password": "p", "verify": True, "check_hostname": False},
    ]


def test_a_broker_needs_a_certificate_for_a_name_server_that_asks_its_clients():
    asks = {"server_auth_client": True, "server_trust_cert_path": "ca"}
    required = {**asks, "server_need_client_auth": ClientAuth.REQUIRE}
    for good in (
        {**required}, {**required, "enable": False}, {**required, "enable": True, "client_cert_path": "c"},
        {**asks, "enable": True}, {**asks, "enable": True, "server_need_client_auth": ClientAuth.OPTIONAL},
        {**required, "enable": True, "server_mode": TlsMode.DISABLED},
    ):  # fmt: skip
        TlsSettings(**good).check_talks_to_itself()
    for bad in ({"enable": True}, {"server_mode": TlsMode.ENFORCING, "server_cert_path": "c"}):
        with pytest.raises(ConfigError, match=r"set tls\.client\.certPath and tls\.client\.keyPath"):
            TlsSettings(**required, **bad).check_talks_to_itself()


# -- contexts of new connections


@pytest.mark.parametrize(
    ("options", "mode", "trusted"),
    [
        ({}, ssl.CERT_NONE, 0),
        ({"server_auth_client": True}, ssl.CERT_NONE, 0),
        ({"server_auth_client": True, "server_trust_cert_path": "PEM"}, ssl.CERT_NONE, 1),
        ({"server_trust_cert_path": "PEM"}, ssl.CERT_NONE, 0),
        ({"server_auth_client": True, "server_trust_cert_path": "PEM", "server_need_client_auth": ClientAuth.OPTIONAL},
         ssl.CERT_OPTIONAL, 1),
        ({"server_auth_client": True, "server_trust_cert_path": "PEM", "server_need_client_auth": ClientAuth.REQUIRE},
         ssl.CERT_REQUIRED, 1),
    ],
)  # fmt: skip
async def test_clients_are_asked_and_verified_as_the_settings_say(pem, monkeypatch, options, mode, trusted):
    if "server_trust_cert_path" in options:
        options = {**options, "server_trust_cert_path": str(pem)}
    monkeypatch.setattr(self_signed, "generate_certificate", lambda path: path.write_bytes(pem.read_bytes()))
    for certificate, kind in ((str(pem), CertificateFiles), ("", SelfSignedCertificate)):
        contexts = tls_contexts(TlsSettings(server_cert_path=certificate, **options))
        assert type(contexts) is kind
        context = await contexts.context()
        assert (context.verify_mode, context.cert_store_stats()["x509"]) == (mode, trusted)
        assert context.protocol is ssl.PROTOCOL_TLS_SERVER


def test_a_server_without_tls_has_no_contexts():
    assert tls_contexts(TlsSettings(server_mode=TlsMode.DISABLED, server_cert_path="c")) is None
    assert tls_contexts(TlsSettings(test_mode=False)) is None


def test_files_that_are_missing_or_invalid_are_named(pem, tmp_path):
    (tmp_path / "no.pem").write_text("no certificate")
    for options, complaint in (
        ({"server_cert_path": str(tmp_path / "none.pem")}, r"none\.pem cannot be used: No such file"),
        ({"server_cert_path": str(pem), "server_key_path": str(tmp_path / "no.key")}, r"no\.key cannot be used: No"),
        ({"server_cert_path": str(tmp_path / "no.pem")}, r"no\.pem cannot be used: it is not PEM of the expected kind"),
        ({"server_cert_path": str(pem), "server_auth_client": True, "server_trust_cert_path": str(tmp_path / "ca.pem")},
         r"no trusted certificates can be read from .*ca\.pem: No such file"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=complaint):
            server_context(TlsSettings(**options))


def test_the_password_of_the_key_is_used(monkeypatch):
    loaded = []
    monkeypatch.setattr(module, "load_certificate", lambda _, *given: loaded.append(given))
    server_context(TlsSettings(server_cert_path="c"))
    server_context(TlsSettings(server_cert_path="c", server_key_path="k", server_key_password="p"))
    assert loaded == [("c", None, None), ("c", "k", "p")]


class Loaded:
    """Makes contexts instead of :func:`server_context`; ``fault``: the files cannot be used."""

    def __init__(self):
        self.times = 0
        self.fault = None

    def __call__(self, settings):
        self.times += 1
        if self.fault is not None:
            raise self.fault
        return f"context {self.times}"


async def test_certificate_files_are_loaded_again_when_one_has_changed(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    loaded = Loaded()
    monkeypatch.setattr(module, "server_context", loaded)
    monkeypatch.setenv("HOME", str(tmp_path))
    files = [tmp_path / name for name in ("server.pem", "server.key", "ca.pem")]
    for file in files:
        file.write_text("1")
        os.utime(file, ns=(1, 1))
    settings = TlsSettings(
        server_cert_path="~/server.pem", server_key_path="~/server.key", server_trust_cert_path=str(files[2])
    )
    contexts = CertificateFiles(settings)
    assert [await contexts.context() for _ in range(2)] == ["context 1"] * 2
    for number, file in enumerate(files, start=2):
        os.utime(file, ns=(1, number))
        assert [await contexts.context() for _ in range(2)] == [f"context {number}"] * 2
    replaced = tmp_path / "new"
    replaced.write_text("2")
    os.utime(replaced, ns=(1, 2))  # the time of the file that it replaces
    replaced.replace(files[0])
    assert await contexts.context() == "context 5"
    assert caplog.messages == ["the changed certificate ~/server.pem is in use now"] * 4


async def test_changed_files_that_cannot_be_used_are_told_once(tmp_path, monkeypatch, caplog):
    loaded, file = Loaded(), tmp_path / "server.pem"
    monkeypatch.setattr(module, "server_context", loaded)
    file.write_text("1")
    contexts = CertificateFiles(TlsSettings(server_cert_path=str(file)))
    loaded.fault = ConfigError("no PEM")
    file.unlink()
    assert [await contexts.context() for _ in range(3)] == ["context 1"] * 3
    assert caplog.messages == ["the changed certificate is not taken over, the one before stays in use: no PEM"]
    loaded.fault = None
    file.write_text("2")
    assert await contexts.context() == "context 3"
    loaded.fault = ConfigError("no PEM")
    with pytest.raises(ConfigError, match="no PEM"):
        CertificateFiles(TlsSettings(server_cert_path=str(file)))
