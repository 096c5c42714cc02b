"""The offsets of a broadcasting consumer: in a file of this machine, which Java clients read and write, too.

Knows path, format and how the file is replaced (LocalFileOffsetStore): every member of the group gets every message, so
its offsets concern nobody else.
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
from rocketmq_py.client.consumer.offsets import OffsetStore
from rocketmq_py.core.paths import below
from rocketmq_py.errors import StoreError
from rocketmq_py.model import MessageQueue
from rocketmq_py.wire import fastjson

_log = logging.getLogger(__name__)

FOLDER = ".rocketmq_offsets"
"""In the home directory, unless another directory is asked for (rocketmq.client.localOffsetStoreDir)."""


class LocalOffsetStore(OffsetStore):
    """Offsets in ``<directory>/<client id>/<group>/offsets.json``, with the state before in ``offsets.json.bak``.

    :param directory: ``~/.rocketmq_offsets`` by default.
    :raises NameIllegal: client id or group cannot be the name of a folder.
    """

    __slots__ = ("path",)

    def __init__(self, instance: ClientInstance, group: str, directory: str | os.PathLike[str] | None = None) -> None:
        super().__init__(instance)
        root = Path.home() / FOLDER if directory is None else Path(directory)
        self.path = below(below(root, instance.client_id), group) / "offsets.json"

    async def fetch(self, queue: MessageQueue) -> int | None:
        """The offset in the file, None when it has none.

        :raises StoreError: neither the file nor the one before it can be read.
        """
        return (await asyncio.to_thread(load, self.path)).get(queue)

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Writes the offsets of ``queues`` into the file, others in it stay; what fails is logged."""
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
    """The offsets in a file, or in the one before it when that is missing or broken; none when there is no file.

    :raises StoreError: there are files, and none can be understood.
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
            f"the consume offsets in {path} cannot be read: {fault}; repair or remove the file to start anew"
        )
    return {}


class _Key(msgspec.Struct, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int


class _File(msgspec.Struct, rename="camel"):
    offset_table: dict[str, int] = {}


def decode(data: bytes) -> dict[MessageQueue, int]:
    """The offsets of an ``offsets.json``.

    :raises ValueError: it is none.
    """
    table = msgspec.convert(fastjson.loads(data), _File, strict=False).offset_table
    keys = {text: msgspec.json.decode(text, type=_Key, strict=False) for text in table}
    return {MessageQueue(key.topic, key.broker_name, key.queue_id): table[text] for text, key in keys.items()}


def encode(offsets: dict[MessageQueue, int]) -> bytes:
    """An ``offsets.json``, with queues as keys of its table."""
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
    """Writes a file so that a reader sees the old or the new content, never a part of it."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    fresh.write_bytes(data)
    fresh.replace(path)
