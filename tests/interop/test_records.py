"""Java's decoder reads the records our codec writes, whatever is in them."""

from __future__ import annotations

import base64
import random
from typing import Any

from rocketmq_py.model import RecordHead, unpack_host
from rocketmq_py.properties import encode_properties
from rocketmq_py.wire import record as r
from rocketmq_py.wire.compression import CompressionType, compress
from rocketmq_py.wire.ids import offset_msg_id
from tests.interop.javapeer import JavaPeer

TOPICS = ["t", "x" * 127, "%RETRY%" + "g" * 121, "%RETRY%" + "g" * 248]
PROPERTIES = [{}, {"TAGS": "A", "KEYS": "a b"}, {"city": "Zürich 漢字 😀"}, {"big": "v" * 30_000}]


def samples() -> list[tuple[RecordHead, str, bytes, bytes, dict[str, str]]]:
    """Head, topic, plain body, stored body, properties."""
    rng = random.Random(5)
    made = []
    for i in range(64):
        born_v6, store_v6 = bool(i & 1), bool(i & 2)
        kind = rng.choice([None, *CompressionType])
        body = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 400)))
        flags = r.BORN_HOST_V6 * born_v6 | r.STORE_HOST_V6 * store_v6 | rng.choice([0, 4, 8, 12])
        if kind is not None:
            flags |= r.COMPRESSED | kind << 8
        head = RecordHead(
            0, 0, 0, rng.randrange(16), rng.randrange(-(2**31), 2**31), rng.randrange(2**40), rng.randrange(2**40),
            flags,
            rng.randrange(2**41), rng.randbytes(16 if born_v6 else 4) + rng.randrange(65536).to_bytes(4, "big"),
            rng.randrange(2**41), rng.randbytes(16 if store_v6 else 4) + rng.randrange(65536).to_bytes(4, "big"),
            rng.randrange(17), rng.randrange(2**40), 0,
        )  # fmt: skip
        stored = body if kind is None else compress(body, kind)
        made.append((head, rng.choice(TOPICS), body, stored, rng.choice(PROPERTIES)))
    return made


def java_host(packed: bytes) -> str:
    ip, _, port = unpack_host(packed).rpartition(":")
    return f"{ip.strip('[]')}|{port}"


def expected(head: RecordHead, topic: str, body: bytes, stored: bytes, properties: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "decoded", "topic": topic, "queueId": head.queue_id, "queueOffset": head.queue_offset,
        "commitLogOffset": head.physical_offset, "flag": head.flag, "bornTimestamp": head.born_timestamp,
        "bornHost": java_host(head.born_host), "storeTimestamp": head.store_timestamp,
        "storeHost": java_host(head.store_host), "reconsumeTimes": head.reconsume_times,
        "preparedTransactionOffset": head.prepared_transaction_offset, "bodyCRC": r.body_crc(stored),
        "body": base64.b64encode(body).decode(), "properties": properties or None,
        "msgId": offset_msg_id(head.store_host, head.physical_offset),
    }  # fmt: skip


def test_java_decodes_our_records(java: JavaPeer) -> None:
    made = samples()
    records = [r.encode_record(head, topic, stored, encode_properties(props)) for head, topic, _, stored, props in made]
    rows = java.facts("decode", "".join(base64.b64encode(record).decode() + "\n" for record in records))
    assert len(rows) == len(made)
    for row, sample, record in zip(rows, made, records, strict=True):
        wanted = expected(*sample)
        assert {name: row.get(name) for name in wanted} == wanted
        assert row["storeSize"] == len(record)
