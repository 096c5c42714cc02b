"""The load generator against servers that answer rightly and wrongly: a figure may only come from right answers."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from benchmarks.errors import BenchError
from benchmarks.frames import send_requests
from benchmarks.load import Load
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmarks run on Linux")

Answer = Callable[[Command], bytes]
REQUESTS = send_requests("T", queues=2, size=64, count=64)


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    def serve() -> None:
        with listener.accept()[0] as link:
            decoder = FrameDecoder()
            while data := link.recv(1 << 16):
                link.sendall(b"".join(answer(decode_command(frame)) for frame in decoder.feed(data)))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join()


def success(request: Command) -> bytes:
    return encode_command(Command(0, opaque=request.opaque, flag=RESPONSE_FLAG))


def busy(request: Command) -> bytes:
    return encode_command(Command(2, opaque=request.opaque, flag=RESPONSE_FLAG, remark="busy"))


@pytest.mark.parametrize("window", [1, 16, 256])
def test_every_request_is_sent_and_answered(window: int) -> None:
    seen: list[int] = []

    def answer(request: Command) -> bytes:
        seen.append(request.opaque)
        return success(request)

    with server(answer) as address, Load(address) as load:
        assert load.drive(REQUESTS, 150, window) > 0
    assert seen == [*range(64), *range(64), *range(22)]


def test_one_request_at_a_time_measures_each_latency() -> None:
    with server(success) as address, Load(address) as load:
        took = load.one_by_one(REQUESTS, 100)
    assert len(took) == 100
    assert min(took) > 0


def test_a_refused_request_is_named() -> None:
    with server(busy) as address, Load(address) as load, pytest.raises(BenchError, match=r"code 2 \(busy\)"):
        load.drive(REQUESTS, 10, 4)


def test_other_success_codes_count() -> None:
    def answer(request: Command) -> bytes:
        header = b'{ "flag": 1, "opaque": %d, "code": 0 }' % request.opaque
        return b"".join(((len(header) + 4).to_bytes(4, "big"), len(header).to_bytes(4, "big"), header))

    with server(answer) as address, Load(address) as load:
        assert load.drive(REQUESTS, 10, 4) > 0


def test_verify_needs_one_answer_for_each_request() -> None:
    def twice_the_first(request: Command) -> bytes:
        return success(Command(0, opaque=0)) if request.opaque == 1 else success(request)

    with server(twice_the_first) as address, Load(address) as load, pytest.raises(BenchError, match="once each"):
        load.verify(REQUESTS, 8)
    with server(success) as address, Load(address) as load:
        assert load.verify(REQUESTS, 8) == 8


def test_a_closed_connection_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with Load(address) as load:
            listener.accept()[0].close()
            with pytest.raises((BenchError, ConnectionError)):
                load.drive(REQUESTS, 10, 4)
