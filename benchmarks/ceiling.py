"""What the load generator reaches on its own: against a server that answers without looking.

``python -m benchmarks.ceiling ANSWER_BODY`` is that server: it says READY and its port, serves one connection and gives
one canned answer, with a body of so many bytes, for every frame.
"""

from __future__ import annotations

import socket
import struct
import sys
import tempfile
from pathlib import Path

from benchmarks.frames import Requests
from benchmarks.load import Load
from benchmarks.program import Program
from rocketmq_py.wire.frame import encode_frame

_ANSWER = (
    b'{"code":0,"extFields":{"queueId":"0","transactionId":"7F00000100004AAC18B4000000000000",'
    b'"msgId":"7F0000010000546B0000000000000000","TRACE_ON":"true","MSG_REGION":"DefaultRegion","queueOffset":"0"},'
    b'"flag":1,"language":"JAVA","opaque":3,"serializeTypeCurrentRPC":"JSON","version":513}'
)
_READ = 4 << 20
_GATHERED = 512
_length = struct.Struct(">I").unpack_from


def ceiling(requests: Requests, count: int, window: int) -> float:
    """Messages per second the generator drives with this load when the other side does next to nothing."""
    command = [sys.executable, "-m", "benchmarks.ceiling", str(requests.answer_body)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Program(command, Path(folder, "log")) as server,
        Load("127.0.0.1:" + server.ready()) as load,
    ):
        return load.drive(requests, count, window)


def serve(answer_body: int) -> None:
    """Answers one connection to its end."""
    answer = encode_frame(_ANSWER, bytes(answer_body))
    answers = memoryview(answer * _GATHERED)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print("READY", listener.getsockname()[1], flush=True)
        link, _ = listener.accept()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(_READ)
    view, kept = memoryview(buffer), 0
    while fresh := link.recv_into(view[kept:]):
        position, end, whole = 0, kept + fresh, 0
        while end - position >= 4 and (after := position + 4 + _length(buffer, position)[0]) <= end:
            position = after
            whole += 1
        kept = end - position
        buffer[:kept] = buffer[position:end]
        for start in range(0, whole, _GATHERED):
            link.sendall(answers[: min(whole - start, _GATHERED) * len(answer)])


if __name__ == "__main__":
    serve(int(sys.argv[1]))
