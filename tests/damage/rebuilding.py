"""The rebuild of consume queues while a broker serves: in rounds with odd seeds each one that can be is put off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.damage.ledger import Ledger
from tests.unit.broker.harness import InProcess

PART_BYTES = 20_000
"""Bytes of the log that are read at once, so that a rebuild of the sample takes several parts."""


def go_on(running: InProcess, parts: int = 1 << 30) -> None:
    """Let a broker rebuild its queues, for so many parts of its log or to the end."""
    asyncio.run(_go_on(running, parts))


async def _go_on(running: InProcess, parts: int) -> None:
    rebuilder, rebuild = running.services.rebuilder, running.services.store.rebuild
    rebuild._part_bytes = rebuild._usual_bytes = PART_BYTES
    while rebuild.queues_left and parts > 0:
        rebuilder.tick()
        position = rebuild.position
        while rebuilder._work.runs and parts > 0:
            await asyncio.sleep(0)
            running.run_callbacks()
            parts, position = parts - (rebuild.position != position), rebuild.position
        await rebuilder.stop()


def not_readable(running: InProcess, ledger: Ledger) -> Iterator[str]:
    """Queues that a consumer would leave, or be led out of, while they are rebuilt."""
    store = running.services.store
    for (topic, queue_id), messages in ledger.messages.items():
        if not store.rebuild.has(topic, queue_id):
            continue
        for offset in messages:
            found = store.get(topic, queue_id, offset, 32)
            if (found.count, found.next_offset) != (0, offset):
                yield f"{topic}-{queue_id}: a read at {offset} is led to {found.next_offset} by {found.status}"
        low, high = store.queue_range(topic, queue_id)
        if low > min(messages, default=0) or high < ledger.ends[topic, queue_id]:
            yield f"{topic}-{queue_id}: has {low} to {high} while it is rebuilt"
