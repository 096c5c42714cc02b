"""A certificate that a server generates for itself."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import shutil
import ssl
import threading
from pathlib import Path

import pytest

from rocketmq_py.server import self_signed
from rocketmq_py.server.self_signed import SelfSignedCertificate, with_cryptography, with_openssl
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


def test_the_certificate_is_generated_once_in_a_thread_when_needed() -> None:
    threads = []

    def generate(path: Path) -> None:
        threads.append(threading.current_thread())
        with_openssl(path)

    async def run() -> None:
        certificate = SelfSignedCertificate(generate=generate)
        assert not threads
        contexts = await asyncio.gather(*(certificate.context() for _ in range(5)))
        assert len(set(map(id, contexts))) == 1
        assert contexts[0] is not None

    asyncio.run(run())
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


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
