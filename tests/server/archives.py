"""Messages to archive, what an archive has, and whether a topic is a copy of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rocketmq_py import Message, Producer, arrow


class Reached(Protocol):
    """A cluster with a name server."""

    @property
    def namesrv(self) -> str: ...


def send(cluster: Reached, topic: str, first: int, stop: int) -> None:
    with Producer("archive", cluster.namesrv) as producer:
        for i in range(first, stop):
            producer.send(Message(topic, b"%d" % i, tags="AB"[i % 2], keys=f"k{i}", properties={"n": str(i)}, flag=i))


def rows(directory: Path) -> pa.Table:
    """All rows of the files that the manifest names."""
    manifest = json.loads((directory / "archive.json").read_bytes())
    return pa.concat_tables([pq.read_table(directory / part["name"]) for part in manifest["parts"]])


def numbers(table: pa.Table) -> list[int]:
    return sorted(int(one) for one in table.column("body").to_pylist())


def check_copy(cluster: Reached, copy: str, source: str, *, in_order: bool = True) -> None:
    """Compare the messages of two topics, and their order.

    :param in_order: False if a Java broker may have checked transactions: it forgets flags, and asks in any order.
    """
    names = ["queueId", "queueOffset", "body", "tags", "keys", "flag", "properties"]
    found, expected = (arrow.read(one, namesrv=cluster.namesrv, columns=names).read_all() for one in (copy, source))
    assert numbers(found) == numbers(expected)
    by_body = {row["body"]: row for row in expected.to_pylist()}
    last: dict[tuple[int, int], int] = {}
    for row in found.to_pylist():
        was = by_body[row["body"]]
        kept, before = ([one[name] for name in ("tags", "keys", "flag")] for one in (row, was))
        assert kept == before or (not in_order and kept == [*before[:2], 0])
        assert dict(row["properties"])["n"] == dict(was["properties"])["n"]
        place = row["queueId"], was["queueId"]
        assert not in_order or last.get(place, -1) < was["queueOffset"], "the order of a queue"
        last[place] = was["queueOffset"]
    assert len(last) == len({row["queueId"] for row in expected.to_pylist()}), "one queue for each"
