"""What the processes of a sink import: one starts for every micro-batch, and pandas alone takes 0.3 s of CPU."""

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
from rocketmq_py.spark import sink
from rocketmq_py.spark.badrecords import Bad, Mode
from rocketmq_py.spark.blocks import Block, BlockWriter
from rocketmq_py.spark.rows import RowStamp, RowWriter
batch = pa.ipc.open_stream(Path(sys.argv[1]).read_bytes()).read_next_batch()
names = batch.schema.names
rows = RowWriter(names, "T", RowStamp("q", "1", 3), lambda: "A" * 32)
writer = BlockWriter(names, "T", rows, lambda n: ("B" * 28, np.arange(n)), b"PGROUP\\x01g\\x02")
bound = lambda topic, key, number: None if key is None else MessageQueue(topic, "b", len(key))
found = list(writer.messages(batch, Bad(Mode.FAILFAST, ""), bound))
assert found and all(isinstance(one, Block) for one in found), found
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
    done = subprocess.run(
        [sys.executable, "-c", WRITE, str(tmp_path / "batch")], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr
