"""TLS settings under Java's names: conversion and checks."""

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.server.tls import ClientAuth, TlsMode, TlsSettings, split


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
        "# Java's file\ntls.test.mode.enable=false\ntls.server.certPath=file.pem\ntls.server.mode=enforcing\n"
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
    ],
)
def test_invalid_tls_settings_are_refused(settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        TlsSettings.of(settings)


def test_a_password_is_not_shown():
    settings = TlsSettings.of({"tls.server.certPath": "c", "tls.server.keyPassword": "s3cret"})
    assert "s3cret" not in repr(settings)
