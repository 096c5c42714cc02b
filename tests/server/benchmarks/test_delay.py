"""The compiled proxy that delays: bytes come unchanged, in order, and not before their time."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.drive import Generator, missing
from benchmarks.program import Program

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the benchmarks run on Linux"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.timeout(900),  # the first test compiles it
]


@pytest.fixture(scope="module")
def program() -> Path:
    return Generator.build("dev").delay


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of a server that sends back what it gets, until its client shuts down writing or closes."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_echo, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield "{}:{}".format(*listener.getsockname())


def _echo(connection: socket.socket) -> None:
    with closing(connection):
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := connection.recv(1 << 16)):
        data += part
    return data


def test_both_directions_are_delayed(program: Path, echo: str, tmp_path: Path) -> None:
    proxy = [str(program), "127.0.0.1:0", echo, "50000"]
    with Program(proxy, tmp_path / "log") as running, closing(connect(running.ready())) as connection:
        began = time.monotonic()
        connection.sendall(b"x")
        assert connection.recv(1) == b"x"
        assert time.monotonic() - began >= 0.1


def test_many_bytes_come_unchanged(program: Path, echo: str, tmp_path: Path) -> None:
    sent = bytes(range(256)) * 20_000
    proxy = [str(program), "127.0.0.1:0", echo, "2000"]
    with Program(proxy, tmp_path / "log") as running, closing(connect(running.ready())) as connection:
        threading.Thread(target=connection.sendall, args=(sent,), daemon=True).start()
        assert received(connection, len(sent)) == sent


def test_a_close_comes_through(program: Path, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        target = "{}:{}".format(*listener.getsockname())
        proxy = [str(program), "127.0.0.1:0", target, "1000"]
        with Program(proxy, tmp_path / "log") as running, closing(connect(running.ready())) as client:
            server, _ = listener.accept()
            server.sendall(b"last words")
            server.close()
            assert received(client, 100) == b"last words"


@pytest.mark.parametrize("arguments", [[], ["127.0.0.1:0", "127.0.0.1:1", "soon"], ["nowhere", "127.0.0.1:1", "1"]])
def test_wrong_arguments_are_refused(program: Path, arguments: list[str]) -> None:
    ended = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("rocketmq-delay: ")
