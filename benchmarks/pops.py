"""The load of the row about POP: a backlog is popped and acknowledged in batches, one pop in flight for each queue.

Other than the loads of ``frames``, what is sent depends on what was answered, so every answer is decoded while the
clock runs; how much CPU that takes is told. Every message must come once and in its place.
"""

from __future__ import annotations

import time
from typing import Self

from benchmarks.errors import BenchError
from benchmarks.load import connect, undisturbed
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pop import PopMessage, PopResponse
from rocketmq_py.protocol.pop_handle import NORMAL, InitMode, encode_bits, parse_start_offsets
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.record import decode_records

_INVISIBLE_MS = 60_000
_BROKER = "broker-a"
_READ_BYTES = 1 << 20
_AGAIN = 1000
"""So many pops of a run may bring nothing: a Java broker answers one before it lets go of the queue for the next."""


class Pops:
    """One connection to a broker whose messages are popped; ``address`` is ``host:port``. A context manager.

    :param each: messages of every pop.
    """

    def __init__(self, address: str, topic: str, queues: int, each: int) -> None:
        self.address = address
        self.cpu_seconds = 0.0
        """What this load itself has taken, of its own process."""
        self._topic = topic
        self._queues = queues
        self._each = each
        self._bits = encode_bits(range(each))
        self._socket = connect(address)
        self._body_size: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def drive(self, group: str, messages: int) -> float:
        """Pop and acknowledge the first ``messages`` of the topic, as many of each queue; messages per second.

        :param group: one that has popped nothing yet.
        :raises BenchError: a pop or an ack is refused, a pop brings more or less than it should, or in another place.
        """
        pops = [self._pop(group, queue) for queue in range(self._queues)]
        end = messages // self._queues
        starts = [0] * self._queues
        decoder, outstanding, again = FrameDecoder(), self._queues, _AGAIN
        cpu = time.process_time()
        with undisturbed():
            begin = time.perf_counter()
            self._socket.sendall(b"".join(pops))
            while outstanding:
                out: list[bytes] = []
                for frame in decoder.feed(self._receive()):
                    answer = decode_command(frame)
                    queue = answer.opaque
                    outstanding -= 1
                    if answer.code == ResponseCode.POLLING_TIMEOUT and queue < self._queues and again:
                        again -= 1
                        out.append(pops[queue])
                        outstanding += 1
                        continue
                    if answer.code:
                        raise BenchError(f"{self.address}: a pop or an ack answered {answer.code}: {answer.remark}")
                    if queue >= self._queues:
                        continue
                    out.append(self._ack(group, queue, starts[queue], answer))
                    starts[queue] += self._each
                    outstanding += 1
                    if starts[queue] < end:
                        out.append(pops[queue])
                        outstanding += 1
                if out:
                    self._socket.sendall(b"".join(out))
            seconds = time.perf_counter() - begin
        self.cpu_seconds += time.process_time() - cpu
        return messages / seconds

    def _pop(self, group: str, queue: int) -> bytes:
        header = PopMessage(
            consumer_group=group, topic=self._topic, queue_id=queue, max_msg_nums=self._each,
            invisible_time=_INVISIBLE_MS, poll_time=0, init_mode=InitMode.MIN, exp_type="TAG", exp="*", bname=_BROKER,
        )  # fmt: skip
        return encode_command(Command(RequestCode.POP_MESSAGE, opaque=queue, ext=header.to_ext()))

    def _ack(self, group: str, queue: int, start: int, answer: Command) -> bytes:
        """The ack of all that a pop has brought."""
        told = PopResponse.from_ext(answer.ext)
        if parse_start_offsets(told.start_offset_info) != {(NORMAL, queue): start}:
            raise self._wrong(answer, queue, start)
        if len(answer.body) != self._body_size:  # the first one, or a wrong one: all messages are alike
            offsets = [message.queue_offset for message in decode_records(answer.body)]
            if self._body_size is not None or offsets != list(range(start, start + self._each)):
                raise self._wrong(answer, queue, start)
            self._body_size = len(answer.body)
        ack = BatchAck(
            consumer_group=group, topic=self._topic, retry=NORMAL, start_offset=start, queue_id=queue,
            revive_queue_id=told.revive_qid, pop_time=told.pop_time, invisible_time=told.invisible_time,
            bits=self._bits,
        )  # fmt: skip
        body = BatchAckRequest(broker_name=_BROKER, acks=[ack]).encode()
        return encode_command(Command(RequestCode.BATCH_ACK_MESSAGE, opaque=self._queues + queue, body=body))

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            raise BenchError(f"{self.address}: no answer to pops and acks") from None
        if not data:
            raise BenchError(f"{self.address}: closed the connection under load")
        return data

    def _wrong(self, answer: Command, queue: int, start: int) -> BenchError:
        return BenchError(
            f"{self.address}: a pop of queue {queue} was to bring {self._each} messages from {start} on, it brought "
            f"{len(answer.body)} bytes: {answer.ext}"
        )
