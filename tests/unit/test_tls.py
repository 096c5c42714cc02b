"""Why no connection could be made, as people say it."""

from __future__ import annotations

import errno
import socket
import ssl
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.tls import connect_fault, load_certificate, tls_fault

NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NO_NAME, "Name or service not known"),
        (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (OSError("Multiple exceptions: this, that"), "Multiple exceptions: this, that"),
        (TimeoutError(), "no answer in time"),
        (ssl.SSLError("no shared cipher"), "TLS: no shared cipher"),
    ],
)
def test_connection_errors_are_described(error: OSError, words: str) -> None:
    assert connect_fault(error) == words


def test_an_unknown_host_differs_from_an_unreachable_server() -> None:
    told = str(ConnectionPool().cannot_connect("nosuch.example:9876", NO_NAME))
    assert told == (
        "cannot connect to nosuch.example:9876: Name or service not known. "
        "Is the name spelt as it should be, and known from here?"
    )


def refused(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "it is odd."
    return error


@pytest.mark.parametrize("code", [18, 19, 20, 21])
def test_a_server_with_an_unknown_authority_needs_the_option_ca(code: int) -> None:
    said = "certificate is not accepted: it is odd"
    assert tls_fault(refused(code)) == f"TLS: the server's {said}; name its authority with the option ca"
    assert tls_fault(refused(code), "client") == f"TLS: the client's {said}"


@pytest.mark.parametrize("code", [10, 17, 22, 62])
def test_another_fault_of_a_certificate_is_not_that_of_its_authority(code: int) -> None:
    assert tls_fault(refused(code)) == "TLS: the server's certificate is not accepted: it is odd"


@pytest.mark.parametrize(
    ("reason", "of_server", "of_client"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "the server requires a client certificate: give cert and key",
         "the client requires a client certificate: give cert and key"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "the server gave no certificate, and one is asked for",
         "the client gave no certificate, and one is asked for"),
        ("WRONG_VERSION_NUMBER", "the server does not use TLS there", "the client does not use TLS there"),
        ("UNEXPECTED_EOF_WHILE_READING", "the server ended the handshake without a reason; it may not use TLS there",
         "the client ended the handshake without a reason"),
        ("NO_SHARED_CIPHER", "NO_SHARED_CIPHER", "NO_SHARED_CIPHER"),
    ],
)  # fmt: skip
def test_a_handshake_that_fails_is_described(reason: str, of_server: str, of_client: str) -> None:
    error = ssl.SSLError(1, "it failed")
    error.reason = reason
    assert (tls_fault(error), tls_fault(error, "client")) == (f"TLS: {of_server}", f"TLS: {of_client}")


def test_an_error_without_tls_is_none_of_it() -> None:
    assert tls_fault(OSError(errno.ECONNREFUSED, "Connection refused")) is None


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("KEY_VALUES_MISMATCH", "the key is not the certificate's"),
        ("BAD_DECRYPT", "the key needs a password, or another one"),
        ("BAD_PASSWORD_READ", "the key needs a password, or another one"),
        ("NO_START_LINE", "it is not PEM of the expected kind"),
        ("PEM_LIB", "it is not PEM of the expected kind"),
        (None, "it is not PEM of the expected kind"),
        ("CA_MD_TOO_WEAK", "CA_MD_TOO_WEAK"),
    ],
)
def test_a_certificate_that_cannot_be_used_says_why(reason: str | None, words: str) -> None:
    def refuse(*_: object) -> None:
        error = ssl.SSLError(1, "x")
        error.reason = cast(str, reason)
        raise error

    with pytest.raises(ConfigError) as told:
        load_certificate(cast(Any, SimpleNamespace(load_cert_chain=refuse)), "c.pem", "k.pem", None)
    assert str(told.value) == f"TLS: certificate c.pem and key k.pem cannot be used: {words}"
