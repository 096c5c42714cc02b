"""Signatures: the signed content and its order, and that secrets are not shown."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.wire.signing import Credentials, SigningKey, sign, signature, signed_content


def test_the_signature_covers_values_sorted_by_name_and_the_body():
    ext = {"b": "2", "a": "1", "Signature": "x", "SecurityToken": "t", "AccessKey": "k"}
    assert signed_content(ext, b"body") == b"kt12body"
    assert signed_content({"z": "ü", "n": ""}, b"") == "ü".encode()


@pytest.mark.parametrize("secret", [b"secret", b"s" * 64, b"s" * 65, b"s" * 200])
def test_the_signature_is_hmac_sha1_in_base64(secret):
    expected = base64.b64encode(hmac.new(secret, b"text", hashlib.sha1).digest())
    assert signature(secret, b"text") == expected.decode()
    key = SigningKey(secret)
    assert [key.sign(b"text"), key.sign(b"text")] == [expected, expected]
    assert key.sign(b"te", b"xt") == expected
    begun = SigningKey(secret, b"te")
    assert [begun.sign(b"xt"), begun.sign(b"xt")] == [expected, expected]


def test_a_request_is_signed_with_everything_in_it():
    signed = Credentials("user", "secret", "token").signed({"topic": "t"}, b"body")
    assert signed["Signature"] == signature(b"secret", b"usertokent" + b"body")
    assert signed["AccessKey"] == "user"
    assert signed["SecurityToken"] == "token"
    assert Credentials("user", "secret").fields() == {"AccessKey": "user"}


def test_secrets_are_never_shown():
    shown = repr(Credentials("user", "s3cret", "t0ken"))
    assert "user" in shown
    assert "s3cret" not in shown
    assert "t0ken" not in shown


@pytest.mark.parametrize("parts", [("", "s"), ("u", "")])
def test_credentials_need_both_keys(parts):
    with pytest.raises(ConfigError, match="need an access key and a secret key"):
        Credentials(*parts)


def test_a_signature_covers_values_in_the_order_of_their_names() -> None:
    ext = {"topic": "t", "AccessKey": "key", "Signature": "old", "b": "2"}
    assert signed_content(ext, b"body") == b"key2tbody"
    assert sign(ext, b"body", "secret") == sign({**ext, "Signature": "other"}, b"body", "secret")
    assert sign(ext, b"body", "secret") != sign(ext, b"Body", "secret")
