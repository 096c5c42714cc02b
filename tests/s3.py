"""An S3 server of its own for tests: moto's, a process on a free port, where ``moto_server`` is on the PATH."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store
from pyarrow import fs

from tests.interop.javapeer import free_port_block
from tests.interop.side import eventually

BUCKET = "stores"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "secret"}
"""The environment of clients."""


class S3:
    """The server; its environment is that of clients.

    :ivar query: for URIs: where the server is.
    """

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.query = f"endpoint_override=127.0.0.1%3A{port}&scheme=http&region=us-east-1"

    @property
    def environment(self) -> dict[str, str]:
        return {**CREDENTIALS, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": self.endpoint}

    def upload(self, directory: Path, prefix: str) -> str:
        """Copy the files that reads of a store need below a prefix of the bucket; return its URI."""
        where = S3Store(
            BUCKET, endpoint=self.endpoint, access_key_id="tests", secret_access_key="secret", region="us-east-1",
            client_options={"allow_http": True},
        )  # fmt: skip
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.name.startswith("timer") and path.parent.name != "index":
                obstore.put(where, f"{prefix}/{path.relative_to(directory).as_posix()}", path)
        return f"s3://{BUCKET}/{prefix}"


@contextmanager
def server(work: Path) -> Iterator[S3]:
    """Run a server with an empty bucket; skip the test where there is none to run."""
    command = shutil.which("moto_server")
    if command is None:
        pytest.skip("not on PATH: moto_server")
    port = free_port_block()
    found = S3(port)
    with (work / "moto.log").open("wb") as log:
        process = subprocess.Popen([command, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    try:
        eventually(lambda: _answers(port), lambda answers: answers or process.poll() is not None)
        uri = f"s3://tests:secret@{BUCKET}?allow_bucket_creation=true&{found.query}"
        fs.FileSystem.from_uri(uri)[0].create_dir(BUCKET)
        yield found
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
