"""What clients spend on bytes: decoding pulled records, encoding and signing sends, and Spark's columns.

Nothing is sent. Run ``python -m benchmarks.micro_client``; figures are microseconds of thread CPU per message, the best
of several rounds, by the Python code and by the accelerator where it is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from rocketmq_py.accelerator import Accelerator, installed
from rocketmq_py.arrow.column_names import DEFAULT_COLUMNS
from rocketmq_py.arrow.decode import COLUMNS, Decoder
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.core.producer.outgoing_message import Packer, SendHead
from rocketmq_py.model import Message, MessageQueue, RecordHead
from rocketmq_py.wire.ids import UniqueKeys
from rocketmq_py.wire.record import BodyRules, Origin, decode_response, encode_record
from rocketmq_py.wire.signing import Credentials

TOPIC = "bench"
QUEUE = MessageQueue(TOPIC, "broker-a", 3)
NOW = 1_700_000_000_000
PULLED = 32
ROUNDS = 200
SPARK_ROWS = 4096
BATCH_BODY = 128

Work = Callable[[], object]


def records(count: int, size: int) -> bytes:
    """Records of one queue as a Java producer makes them."""
    host = bytes((127, 0, 0, 1, 0, 0, 42, 159))
    return b"".join(
        encode_record(
            RecordHead(0, 0, 0, QUEUE.queue_id, 0, i, i * 1200, 0, NOW, host, NOW, host, 0, 0, 0), TOPIC, bytes(size),
            b"UNIQ_KEY\x017F00000100002A9F4A6B00000000%04d\x02TAGS\x01A\x02WAIT\x01true\x02" % i,
        )
        for i in range(count)
    )  # fmt: skip


def pulls(native: Accelerator | None, size: int, *, check_crc: bool) -> Work:
    """A pull of 32 messages."""
    body, origin = records(PULLED, size), Origin(TOPIC, QUEUE.queue_id, 0, PULLED)
    rules = BodyRules(check_crc=check_crc, accelerator=native)
    return lambda: decode_response(body, QUEUE.broker_name, rules, origin)


def columns(native: Accelerator | None, size: int, *, check_crc: bool) -> Work:
    """Rows of a Spark read that names no columns."""
    schema = pa.schema([pa.field(name, COLUMNS[name].kind) for name in DEFAULT_COLUMNS])
    choice = DecoderChoice.NUMPY if native is None else DecoderChoice.COMPILED
    decoder = Decoder(schema, QUEUE.broker_name, check_crc=check_crc, choice=choice)
    chunks = [FetchedChunk(records(SPARK_ROWS, size), 0, SPARK_ROWS)]
    return lambda: list(decoder.decode(chunks))


def sends(native: Accelerator | None, size: int, *, signed: bool) -> Work:
    """One message from its constructor to its frame."""
    packer = Packer(UniqueKeys(bytes(4), 1, 1), signing=signed, accelerator=native)
    credentials = Credentials("root", "secret") if signed else None
    head, body = SendHead("bench-producer", QUEUE, "TBW102", 4, credentials, native), bytes(size)
    return lambda: packer.pack(Message(TOPIC, body, "A"), NOW).frame(head, 7)


def batches(native: Accelerator | None) -> Work:
    """A batch of 32 messages, from their constructors to its frame."""
    packer, body = Packer(UniqueKeys(bytes(4), 1, 1), accelerator=native), bytes(BATCH_BODY)
    head = SendHead("bench-producer", QUEUE, "TBW102", 4)
    return lambda: packer.pack_batch([Message(TOPIC, body, "A") for _ in range(PULLED)], NOW).frame(head, 7)


def measure(work: Work, messages: int) -> float:
    """Microseconds of thread CPU per message: the least of several rounds."""
    best, times = float("inf"), max(1, SPARK_ROWS // messages // 8)
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for _ in range(times):
            work()
        best = min(best, time.thread_time() - begin)
    return best / times / messages * 1e6


def main() -> None:
    """Measure everything."""
    native = installed()
    makers: list[tuple[str, int, Callable[[Accelerator | None], Work]]] = []
    for size in (128, 1024):
        makers += [
            (f"pull of 32 x {size} B", PULLED, lambda a, s=size: pulls(a, s, check_crc=False)),
            (f"pull of 32 x {size} B, CRC", PULLED, lambda a, s=size: pulls(a, s, check_crc=True)),
            (f"Spark rows of {size} B", SPARK_ROWS, lambda a, s=size: columns(a, s, check_crc=False)),
            (f"Spark rows of {size} B, CRC", SPARK_ROWS, lambda a, s=size: columns(a, s, check_crc=True)),
            (f"send of {size} B", 1, lambda a, s=size: sends(a, s, signed=False)),
            (f"send of {size} B, signed", 1, lambda a, s=size: sends(a, s, signed=True)),
        ]
    makers.append((f"batch of 32 x {BATCH_BODY} B", PULLED, batches))
    print(f"{'us of CPU per message':<28} {'Python':>9} {'compiled':>9}")
    for name, messages, make in makers:
        figures = [measure(make(None), messages)] + ([measure(make(native), messages)] if native else [])
        print(f"{name:<28} " + " ".join(f"{figure:9.3f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
