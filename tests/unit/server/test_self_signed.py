"""A certificate that a server generates for itself."""

from __future__ import annotations

import asyncio
import datetime
import importlib.util
import logging
import shutil
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.server import self_signed
from rocketmq_py.server.self_signed import (
    CertificateUnavailableError,
    SelfSignedCertificate,
    generate_certificate,
    with_cryptography,
    with_openssl,
)
from rocketmq_py.server.tls import TlsMode, TlsSettings

GENERATORS = [
    pytest.param(
        with_cryptography,
        marks=pytest.mark.skipif(importlib.util.find_spec("cryptography") is None, reason="no cryptography"),
    ),
    pytest.param(with_openssl, marks=pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")),
]


@pytest.mark.parametrize("generate", GENERATORS)
def test_the_certificate_serves(generate, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    generate(tmp_path / "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A certificate and its key."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    generate_certificate(path)
    return path.read_bytes()


def test_the_certificate_names_the_program_and_is_valid_for_ten_years(pem: bytes) -> None:
    x509 = pytest.importorskip("cryptography.x509")
    hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.subject.rfc4514_string() == certificate.issuer.rfc4514_string() == "CN=rocketmq-py"
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    assert abs(now - datetime.timedelta(days=1) - certificate.not_valid_before_utc) < hour
    assert abs(now + datetime.timedelta(days=3650) - certificate.not_valid_after_utc) < hour
    assert certificate.public_key().curve.name == "secp256r1"
    assert isinstance(certificate.signature_hash_algorithm, hashes.SHA256)


def test_the_certificate_is_generated_once_in_a_thread_when_needed(
    pem: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    threads, modes, paths, trusting = [], [], [], []

    def generate(path: Path) -> None:
        threads.append(threading.current_thread())
        paths.append(path)
        modes.append(path.parent.stat().st_mode & 0o777)
        path.write_bytes(pem)

    async def run() -> None:
        certificate = SelfSignedCertificate(trusting.append, generate)
        assert not threads
        contexts = await asyncio.gather(*(certificate.context() for _ in range(5)))
        assert len(set(map(id, contexts))) == 1
        assert contexts[0] is not None
        assert contexts[0].protocol is ssl.PROTOCOL_TLS_SERVER
        assert trusting == contexts[:1]

    asyncio.run(run())
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    assert modes == [0o700], "others must not read the key"
    assert not paths[0].parent.exists()
    assert caplog.messages == ["TLS connections get a self-signed certificate: tls.server.certPath is not set"]


def test_a_certificate_that_cannot_be_used_refuses_tls(caplog: pytest.LogCaptureFixture) -> None:
    certificate = SelfSignedCertificate(generate=lambda path: path.write_text("no PEM") and None)
    assert asyncio.run(certificate.context()) is None
    [message] = caplog.messages
    assert message.startswith("TLS connections are refused, no certificate can be generated: ")


def test_the_generator_is_the_package_or_else_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("with_cryptography", "with_openssl"):
        monkeypatch.setattr(self_signed, name, lambda path, name=name: path.write_text(name))
    monkeypatch.setitem(sys.modules, "cryptography", sys)
    generate_certificate(tmp_path / "package")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    generate_certificate(tmp_path / "command")
    assert (tmp_path / "package").read_text() == "with_cryptography"
    assert (tmp_path / "command").read_text() == "with_openssl"


def test_the_command_makes_a_key_without_a_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called = []

    def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        called.append(options)
        assert words == [
            "/bin/openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", "3650",
            "-subj", "/CN=rocketmq-py", "-config", str(tmp_path / "server.cnf"),
            "-keyout", str(tmp_path / "server.key"), "-out", str(tmp_path / "server.pem"),
        ]  # fmt: skip
        assert (tmp_path / "server.cnf").read_text().startswith("[req]\ndistinguished_name")
        (tmp_path / "server.key").write_bytes(b"key")
        (tmp_path / "server.pem").write_bytes(b"certificate")
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(self_signed.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(self_signed.subprocess, "run", run)
    with_openssl(tmp_path / "server.pem")
    assert called == [{"capture_output": True, "timeout": 20.0, "check": False}]
    assert (tmp_path / "server.pem").read_bytes() == b"keycertificate"


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (None, b"", "/bin/openssl did not end within 20 s"),
        (3, b"", "/bin/openssl failed: 3"),
        (1, b"first\n no entropy\xff \n", "/bin/openssl failed:  no entropy\ufffd"),
    ],
)
def test_a_command_that_fails_is_named_with_its_last_words(
    status: int | None, said: bytes, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        if status is None:
            raise subprocess.TimeoutExpired(words, 20)
        return subprocess.CompletedProcess(words, status, stderr=said)

    monkeypatch.setattr(self_signed.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(self_signed.subprocess, "run", run)
    with pytest.raises(CertificateUnavailableError) as caught:
        with_openssl(tmp_path / "server.pem")
    assert str(caught.value) == why


def test_a_missing_generator_logs_what_can_be_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(self_signed.shutil, "which", lambda _: None)

    async def run() -> list[ssl.SSLContext | None]:
        certificate = SelfSignedCertificate(generate=with_openssl)
        return [await certificate.context() for _ in range(3)]

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(run()) == [None] * 3
    assert len(caplog.messages) == 1
    assert "cryptography" in caplog.messages[0]
    assert "openssl" in caplog.messages[0]


def test_a_failing_openssl_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "openssl"
    fake.write_text("#!/bin/sh\necho 'no entropy' >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setattr(self_signed.shutil, "which", lambda _: str(fake))
    with pytest.raises(self_signed.CertificateUnavailableError, match="openssl failed: no entropy"):
        with_openssl(tmp_path / "server.pem")


@pytest.mark.parametrize(
    ("settings", "generates"),
    [
        ({}, True),
        ({"tls.test.mode.enable": "false"}, False),
        ({"tls.server.mode": "disabled"}, False),
        ({"tls.server.mode": "disabled", "tls.test.mode.enable": "true"}, False),
        ({"tls.server.mode": "enforcing", "tls.test.mode.enable": "true"}, True),
        ({"tls.server.certPath": "c.pem", "tls.test.mode.enable": "true"}, False),
    ],
)
def test_a_certificate_is_generated_only_without_configured_ones(settings: dict[str, str], generates: bool) -> None:
    found = TlsSettings.of(settings)
    assert found.generates_certificate is generates
    assert found.serves_tls is (generates or bool(found.server_cert_path))
    assert TlsSettings().server_mode is TlsMode.PERMISSIVE
