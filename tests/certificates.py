"""Certificates for tests, made by the ``openssl`` command when they are wanted."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    cert: Path
    key: Path


class Authority:
    """Issues certificates in a directory; its own is ``ca``."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("the openssl command, which makes the certificates, is not installed")
        self.directory = directory
        self.name = name
        self.ca = directory / f"{name}-authority.pem"
        self._key = directory / f"{name}-authority.key"
        self._run("req", "-x509", *_new_key(self._key), "-out", self.ca, "-subj", f"/CN={name}", "-days", "2")

    def issue(self, name: str, *, expired: bool = False, names: str = NAMES) -> Pair:
        """A certificate for this machine; the files of the same name are written anew."""
        pair = Pair(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        request, extensions = self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        extensions.write_text(names + "\n")
        self._run("req", *_new_key(pair.key), "-out", request, "-subj", f"/CN={name}")
        made = self.directory / f"{name}.new"
        days = ("-days", "-1") if expired else ("-days", "2")
        self._run("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key, "-CAcreateserial",
                  "-out", made, "-extfile", extensions, *days)  # fmt: skip
        made.replace(pair.cert)
        return pair

    @staticmethod
    def _run(*args: str | Path) -> None:
        done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _new_key(path: Path) -> tuple[str | Path, ...]:
    return ("-newkey", "rsa:2048", "-nodes", "-keyout", path)
