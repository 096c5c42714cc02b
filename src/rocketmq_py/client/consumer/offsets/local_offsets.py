"""The offsets of a broadcasting consumer, in a local file with the path and format of Java's LocalFileOffsetStore.

Each member of a broadcasting group gets all messages and has its own offsets.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.offsets.offset_store import OffsetStore
from rocketmq_py.core.paths import below
from rocketmq_py.errors import StoreError
from rocketmq_py.model import MessageQueue
from rocketmq_py.wire import fastjson

_log = logging.getLogger(__name__)

FOLDER = ".rocketmq_offsets"
"""Default folder, in the home directory; the option ``local_offset_dir`` replaces it (Java: localOffsetStoreDir)."""


class LocalOffsetStore(OffsetStore):
    """Offsets in ``<directory>/<client id>/<group>/offsets.json``, with the previous version in ``offsets.json.bak``.

    :param directory: ``~/.rocketmq_offsets`` by default.
    :raises NameIllegal: the client id or group is not a legal folder name.
    """

    __slots__ = ("path",)

    def __init__(self, instance: ClientInstance, group: str, directory: str | os.PathLike[str] | None = None) -> None:
        super().__init__(instance)
        root = Path.home() / FOLDER if directory is None else Path(directory)
        self.path = below(below(root, instance.client_id), group) / "offsets.json"

    async def fetch(self, queue: MessageQueue) -> int | None:
        """The offset of a queue in the file; None if the file has none.

        :raises StoreError: neither the file nor its backup can be read.
        """
        return (await asyncio.to_thread(load, self.path)).get(queue)

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Write the offsets of ``queues`` to the file, without changing those of other queues; failures are logged."""
        offsets = {queue: offset for queue, offset in self if queue in queues}
        if not offsets:
            return
        try:
            await asyncio.to_thread(_merge, self.path, offsets)
        except (OSError, StoreError) as e:
            _log.warning("%d offsets could not be written: %s", len(offsets), e)

    async def persist_confirmed(self, queues: Collection[MessageQueue]) -> None:
        await self.persist(queues)

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        try:
            await asyncio.to_thread(_merge, self.path, dict(offsets))
        except OSError as e:
            raise StoreError(f"the consume offsets in {self.path} cannot be written: {e}") from e


def load(path: Path) -> dict[MessageQueue, int]:
    """Read the offsets from a file, or from its backup if the file is missing or damaged; empty if both are missing.

    :raises StoreError: the file or its backup exists, but neither can be read.
    """
    fault: Exception | None = None
    for candidate in (path, _backup(path)):
        try:
            data = candidate.read_bytes()
            if data.strip():
                return decode(data)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as e:
            fault = fault or e
    if fault is not None:
        raise StoreError(
            f"the consume offsets in {path} cannot be read: {fault}; repair it, or remove it to start without offsets"
        )
    return {}


class _Key(msgspec.Struct, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int


class _File(msgspec.Struct, rename="camel"):
    offset_table: dict[str, int] = {}


def decode(data: bytes) -> dict[MessageQueue, int]:
    """Decode the contents of an ``offsets.json``.

    :raises ValueError: the data is not valid.
    """
    table = msgspec.convert(fastjson.loads(data), _File, strict=False).offset_table
    keys = {text: msgspec.json.decode(text, type=_Key, strict=False) for text in table}
    return {MessageQueue(key.topic, key.broker_name, key.queue_id): table[text] for text, key in keys.items()}


def encode(offsets: dict[MessageQueue, int]) -> bytes:
    """Encode offsets as the contents of an ``offsets.json``; the keys of its table are queues as JSON objects."""
    table: dict[Any, int] = {
        (("brokerName", queue.broker_name), ("queueId", queue.queue_id), ("topic", queue.topic)): offset
        for queue, offset in sorted(offsets.items())
    }
    return fastjson.dumps_pretty({"offsetTable": table})


def _merge(path: Path, offsets: dict[MessageQueue, int]) -> None:
    known = load(path)
    if {**known, **offsets} == known:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        _replace(_backup(path), path.read_bytes())
    _replace(path, encode({**known, **offsets}))


def _backup(path: Path) -> Path:
    return path.with_name(f"{path.name}.bak")


def _replace(path: Path, data: bytes) -> None:
    """Replace a file atomically: a reader sees either the old or the new content."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    fresh.write_bytes(data)
    fresh.replace(path)
