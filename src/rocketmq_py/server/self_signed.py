"""A certificate that a server generates for itself, as a Java broker does when none is configured.

It encrypts a connection but proves nothing: clients that check certificates refuse it. The ``cryptography`` package
generates it if it is installed, otherwise the ``openssl`` command.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)

_NAME = "rocketmq-py"
_DAYS = 3650
_OPENSSL_SECONDS = 20.0
_OPENSSL_CONFIG = "[req]\ndistinguished_name = name\n[name]\n"


class CertificateUnavailableError(Exception):
    """No certificate can be generated; the message has the reason and what to do."""


def new_server_context() -> ssl.SSLContext:
    """Return a context of a server without a certificate yet.

    It offers HTTP/2, which clients of gRPC ask for; clients of remoting ask for nothing.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    return context


class SelfSignedCertificate:
    """Provides a TLS context with a certificate that is generated when the first TLS connection arrives.

    :param add_trust: sets in the context how client certificates are verified.
    :param generate: writes a certificate and its private key into one PEM file; :func:`generate_certificate` if None.
    """

    def __init__(
        self,
        add_trust: Callable[[ssl.SSLContext], None] = lambda _: None,
        generate: Callable[[Path], None] | None = None,
    ) -> None:
        self._add_trust = add_trust
        self._generate = generate or generate_certificate
        self._lock = asyncio.Lock()
        self._context: ssl.SSLContext | None = None
        self._is_unavailable = False

    async def context(self) -> ssl.SSLContext | None:
        """Return the context, which the first call creates; None if no certificate can be generated (logged once)."""
        async with self._lock:
            if self._context is None and not self._is_unavailable:
                try:
                    self._context = await asyncio.to_thread(self._made)
                except (CertificateUnavailableError, OSError) as e:
                    self._is_unavailable = True
                    _log.warning("TLS connections are refused, no certificate can be generated: %s", e)
                else:
                    _log.info("TLS connections get a self-signed certificate: tls.server.certPath is not set")
        return self._context

    def _made(self) -> ssl.SSLContext:
        with tempfile.TemporaryDirectory(prefix="rocketmq-tls-") as directory:  # of mode 0700: it holds a private key
            path = Path(directory) / "server.pem"
            self._generate(path)
            context = new_server_context()
            context.load_cert_chain(path)
        self._add_trust(context)
        return context


def generate_certificate(path: Path) -> None:
    """Write a self-signed certificate and its private key into one PEM file.

    :raises CertificateUnavailableError: neither the package nor the command is installed, or the command failed.
    """
    try:
        import cryptography  # noqa: F401 - whether it is installed
    except ImportError:
        with_openssl(path)
    else:
        with_cryptography(path)


def with_cryptography(path: Path) -> None:
    """Write a self-signed certificate and its EC key (P-256), made by the ``cryptography`` package."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + _DAYS * day)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))


def with_openssl(path: Path) -> None:
    """Write a self-signed certificate and its RSA key (2048 bits), made by the ``openssl`` command.

    :raises CertificateUnavailableError: there is no such command, or it failed.
    """
    command = shutil.which("openssl")
    if command is None:
        raise CertificateUnavailableError(
            "install the cryptography package (rocketmq-py[tls]) or the openssl command, or set tls.server.certPath"
        )
    config, key = path.with_suffix(".cnf"), path.with_suffix(".key")
    config.write_text(_OPENSSL_CONFIG)
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", str(_DAYS), "-subj", f"/CN={_NAME}",
             "-config", str(config), "-keyout", str(key), "-out", str(path))  # fmt: skip
    try:
        done = subprocess.run([command, *words], capture_output=True, timeout=_OPENSSL_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as e:
        raise CertificateUnavailableError(f"{command} did not end within {_OPENSSL_SECONDS:.0f} s") from e
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise CertificateUnavailableError(f"{command} failed: {said[-1] if said else done.returncode}")
    path.write_bytes(key.read_bytes() + path.read_bytes())
