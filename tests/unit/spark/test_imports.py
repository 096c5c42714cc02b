"""Imports of Spark's processes: a sink starts some for every micro-batch, and pandas alone takes 0.3 s of CPU.

In workers, what is imported while a task runs is also gone through by the collection of garbage after every task.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

WRITE = """
import sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.sink import sink
from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.sink.blocks import Block, BlockWriter
from rocketmq_py.arrow.sink.rows import RowStamp, RowWriter
batch = pa.ipc.open_stream(Path(sys.argv[1]).read_bytes()).read_next_batch()
names = batch.schema.names
rows = RowWriter(names, "T", RowStamp("q", "1", 3), lambda: "A" * 32)
writer = BlockWriter(names, "T", rows, lambda n: ("B" * 28, np.arange(n)), b"PGROUP\\x01g\\x02")
bound = lambda topic, key, number: None if key is None else MessageQueue(topic, "b", len(key))
found = list(writer.messages(batch, BadRecordPolicy(Mode.FAILFAST, ""), bound))
assert found and all(isinstance(one, Block) for one in found), found
print(*sorted(sys.modules.keys() & {"pandas", "asyncio", "rocketmq_py.client"}))
"""
COMMIT = """
import pickle
import sys
from pyspark.sql.types import BinaryType, StructType
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.sink.exactly_once import Prepared
from rocketmq_py.spark.sink.half_sender import HalfMessages
from rocketmq_py.spark.sink.sink import PreparedTask, Written
schema = StructType().add("body", BinaryType())
options = {"namesrv": "h:1", "topic": "t", "deliveryguarantee": "exactly-once", "checkpointlocation": "/tmp/c"}
streaming = RocketMQDataSource(options).streamWriter(schema, False)
streaming.committer()
batch = pickle.loads(pickle.dumps(RocketMQDataSource({"namesrv": "h:1", "topic": "t"}).writer(schema, False)))
batch.commit([Written(1)])
pickle.loads(pickle.dumps(PreparedTask(Prepared("q", "a", HalfMessages()))))
RocketMQDataSource({"namesrv": "h:1", "subscribe": "t"}).streamReader(schema)
print(*sorted(sys.modules.keys() & {"numpy", "pyarrow", "pandas", "asyncio", "rocketmq_py.client"}))
"""
READ = """
import sys
import zlib
import pyarrow as pa
import pyspark.worker
from rocketmq_py.model import RecordHead
from rocketmq_py.arrow.source import corrupt_records as corrupt_records, reading as reading
from rocketmq_py.spark.source import stream
from rocketmq_py.arrow.decode import COLUMNS, Decoder
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.wire.record import COMPRESSED, encode_record, pack_host
host = pack_host("127.0.0.1", 10911)
def record(offset, body, properties, flags=0):
    return encode_record(RecordHead(0, 0, 0, 3, 7, offset, 9, flags, 5, host, 6, host, 0, 0, 0), "T", body, properties)
raw = [
    record(0, b"x", b"TAGS\x01A\x02UNIQ_KEY\x01u\x02"),
    record(1, b"y", b"TAGS\x01B\x02"),
    record(2, zlib.compress(b"z"), b"TAGS\x01A\x02KEYS\x01k\x02", COMPRESSED),
]
schema = pa.schema([(name, column.kind) for name, column in COLUMNS.items()])
for tags in (), ("A",):
    (batch,) = Decoder(schema, "b", tags, choice=DecoderChoice.NUMPY).decode([FetchedChunk(b"".join(raw), 0, 3)])
    assert batch.num_rows == 3 - len(tags), batch
print(*sorted(sys.modules.keys() & {"pandas", "asyncio", "rocketmq_py.client"}))
"""
COLUMNS = {
    "body": (pa.binary(), [b"x", b"y", b"z"]),
    "tags": (pa.string(), ["a", None, ""]),
    "keys": (pa.string(), ["k", "k", "l"]),
    "properties": (pa.map_(pa.string(), pa.string()), [[("a", "b")], None, [("c", ""), ("UNIQ_KEY", "u")]]),
    "shardingKey": (pa.string(), ["s", None, "ss"]),
    "delayLevel": (pa.int32(), [0, None, 0]),
}


def test_a_sink_imports_neither_pandas_nor_the_asyncio_client(tmp_path: Path) -> None:
    columns = [pa.array(values, kind) for kind, values in COLUMNS.values()]
    batch = pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))
    with pa.ipc.new_stream(str(tmp_path / "batch"), batch.schema) as stream:
        stream.write_batch(batch)
    assert imported(WRITE, str(tmp_path / "batch")) == ""


def test_planners_and_the_processes_that_commit_import_neither_arrow_nor_numpy() -> None:
    assert imported(COMMIT) == ""


def test_a_source_imports_neither_pandas_nor_the_asyncio_client() -> None:
    assert imported(READ) == ""


def imported(program: str, *words: str) -> str:
    """What ``program`` says it has imported."""
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
