"""``rocketmq serve`` without any setting offers TLS, as a Java broker does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketmq_py import Admin, Message, Producer, SendStatus, TlsOptions
from rocketmq_py.errors import NetworkError
from tests.server.rawpeer import RawPeer
from tests.server.test_serve import serve


def refused(namesrv: str) -> None:
    with Admin(namesrv, tls=TlsOptions(verify=False), timeout=5) as admin, pytest.raises(NetworkError):
        admin.cluster()


def test_a_fresh_broker_serves_tls_and_plain_connections(tmp_path: Path) -> None:
    with serve(tmp_path, "--log-level", "info") as served:
        for tls in (TlsOptions(verify=False), None):
            with Producer("p", served.addresses["namesrv"], tls=tls) as producer:
                assert producer.send(Message("T", b"hello")).status is SendStatus.SEND_OK
        with Admin(served.addresses["namesrv"], tls=True) as admin, pytest.raises(NetworkError, match="certificate"):
            admin.cluster()
        status, said = served.stop()
    assert status == 0
    assert "TLS connections get a self-signed certificate" in said


def test_without_a_generator_tls_is_refused_and_plain_connections_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "modules" / "cryptography").mkdir(parents=True)
    (tmp_path / "modules" / "cryptography" / "__init__.py").write_text("raise ImportError('not installed')\n")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'modules'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with serve(tmp_path / "store") as served:
        for _ in range(2):
            refused(served.addresses["namesrv"])
        with RawPeer(served.addresses["broker"]) as peer:
            assert peer.ask(28).code >= 0
        _, said = served.stop()
    lines = [line for line in said.splitlines() if "no certificate can be generated" in line]
    assert len(lines) == 1
    assert "cryptography" in lines[0]
    assert "openssl" in lines[0]


@pytest.mark.parametrize("option", [("--tls-mode", "disabled"), ("--set", "tls.test.mode.enable=false")])
def test_tls_can_be_switched_off(tmp_path: Path, option: tuple[str, str]) -> None:
    with serve(tmp_path, *option) as served:
        refused(served.addresses["namesrv"])


def test_the_key_is_not_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serve(tmp_path / "store") as served:
        with Admin(served.addresses["namesrv"], tls=TlsOptions(verify=False)) as admin:
            admin.cluster()
        assert not list(tmp_path.glob("rocketmq-tls-*"))


def test_importing_the_package_does_not_import_cryptography() -> None:
    code = "import sys, rocketmq_py.server.tls; print('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
