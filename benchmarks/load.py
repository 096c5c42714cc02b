"""The load generator: one blocking socket, encoded requests, a window of them in flight.

The same code drives our broker and the Java one. While the clock runs it slices a buffer, counts answers by their
length fields and checks that each is a success (and, for pulls, of the right size); everything dearer is checked before
and after: ``verify`` decodes whole answers, ``control`` compares the queues' offsets with what was sent.
"""

from __future__ import annotations

import gc
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from benchmarks.errors import BenchError
from benchmarks.frames import Requests
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import Frame, FrameDecoder
from rocketmq_py.wire.record import decode_records

TIMEOUT_SECONDS = 60
_SUCCESS = b'{"code":0,'
_lengths = struct.Struct(">II").unpack_from
_BUFFER = 4 << 20


class Load:
    """One connection to a broker under load. ``address`` is ``host:port``; a context manager."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = connect(address)
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._filled = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def verify(self, requests: Requests, window: int) -> int:
        """Sends one window of requests and decodes every answer whole; the number of requests.

        :raises BenchError: an answer that is missing, doubled, not a success, or holds other messages than asked for.
        """
        count = min(window, requests.count)
        requests.renew_keys()
        self._socket.sendall(memoryview(requests.buffer)[: requests.bounds[count]])
        commands = self._read_commands(count)
        if {command.opaque for command in commands} != set(range(count)):
            raise BenchError(f"{self.address}: {count} requests were not answered once each")
        for command in commands:
            self._verify_one(command, requests)
        return count

    def body_size(self, requests: Requests) -> int:
        """Bytes of body in the answer to the first request, which must be a success."""
        self._socket.sendall(memoryview(requests.buffer)[: requests.bounds[1]])
        (command,) = self._read_commands(1)
        if command.code:
            raise self._wrong(command, "any body")
        return len(command.body)

    def drive(self, requests: Requests, count: int, window: int) -> float:
        """``count`` requests with at most ``window`` in flight; the rate in messages per second.

        :raises BenchError: an answer that is no success or, for pulls, has not the size it must have.
        """
        seconds = 0.0
        done = 0
        while done < count:
            requests.renew_keys()
            cycle = min(requests.count, count - done)
            seconds += self._cycle(requests, cycle, window)
            done += cycle
        return count * requests.messages_each / seconds

    def one_by_one(self, requests: Requests, count: int) -> list[float]:
        """``count`` requests, each after the answer to the one before; seconds from send to answer of each."""
        took: list[float] = []
        while len(took) < count:
            requests.renew_keys()
            self._one_cycle(requests, min(requests.count, count - len(took)), took)
        return took

    def _cycle(self, requests: Requests, count: int, window: int) -> float:
        """One pass over the first ``count`` requests of the buffer. Renewing the keys between passes is not timed."""
        send, bounds, view = self._socket.sendall, requests.bounds, memoryview(requests.buffer)
        sent = min(window, count)
        answered = 0
        with undisturbed():
            start = time.perf_counter()
            send(view[: bounds[sent]])
            while answered < count:
                fresh = self._answers(requests.answer_body)
                answered += fresh
                more = min(sent + fresh, count)
                if more > sent:
                    send(view[bounds[sent] : bounds[more]])
                    sent = more
            return time.perf_counter() - start

    def _one_cycle(self, requests: Requests, count: int, took: list[float]) -> None:
        send, clock, body = self._socket.sendall, time.perf_counter, requests.answer_body
        bounds, view = requests.bounds, memoryview(requests.buffer)
        with undisturbed():
            for i in range(count):
                request = view[bounds[i] : bounds[i + 1]]
                start = clock()
                send(request)
                while not self._answers(body):
                    pass
                took.append(clock() - start)

    def _answers(self, body: int) -> int:
        """Reads once and takes the whole answers; how many there are."""
        read = self._receive()
        buffer, position, end, count = self._buffer, 0, self._filled + read, 0
        while end - position >= 8:
            length, header = _lengths(buffer, position)
            if position + 4 + length > end:
                break
            if length - header - 4 != body or not buffer.startswith(_SUCCESS, position + 8):
                self._check(bytes(buffer[position : position + 4 + length]), body)
            position += 4 + length
            count += 1
        self._filled = end - position
        if self._filled and position:
            buffer[: self._filled] = buffer[position:end]
        return count

    def _receive(self) -> int:
        try:
            read = self._socket.recv_into(self._view[self._filled :])
        except BlockingIOError:
            raise BenchError(f"{self.address}: no answer for {TIMEOUT_SECONDS} s") from None
        if not read:
            raise BenchError(f"{self.address}: closed the connection under load")
        return read

    def _check(self, answer: bytes, body: int) -> None:
        """The slow way, for an answer that does not look like a success at first sight."""
        (frame,) = FrameDecoder().feed(answer)
        command = decode_command(frame)
        if command.code or len(command.body) != body:
            raise self._wrong(command, f"a body of {body} bytes")

    def _read_commands(self, count: int) -> list[Command]:
        decoder, frames = FrameDecoder(), list[Frame]()
        while len(frames) < count:
            frames += decoder.feed(bytes(self._view[: self._receive()]))
        return list(map(decode_command, frames))

    def _verify_one(self, command: Command, requests: Requests) -> None:
        if command.code or len(command.body) != requests.answer_body:
            raise self._wrong(command, f"a body of {requests.answer_body} bytes")
        if command.body:
            end = int(command.ext["nextBeginOffset"])
            offsets = [message.queue_offset for message in decode_records(command.body)]
            if offsets != list(range(end - requests.messages_each, end)):
                raise self._wrong(command, f"{requests.messages_each} messages before offset {end}, it has {offsets}")

    def _wrong(self, command: Command, wanted: str) -> BenchError:
        return BenchError(
            f"{self.address}: code {command.code} ({command.remark}) with {len(command.body)} bytes of body, "
            f"wanted a success with {wanted}; {command.ext}"
        )


def connect(address: str) -> socket.socket:
    """A blocking connection whose reads fail after ``TIMEOUT_SECONDS``.

    The limit is the kernel's: Python's own would poll before every read.
    """
    host, _, port = address.rpartition(":")
    link = socket.create_connection((host, int(port)))
    link.settimeout(None)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", TIMEOUT_SECONDS, 0))
    return link


@contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection of the generator itself inside the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
