"""Decodes answers to pulls and pops: in the event loop, or in a thread if the bodies decompress to many bytes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Collection

from rocketmq_py.core.consumer.pull_result import PulledMessages, pulled_messages
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.wire.compression import MIB, DecompressionLimits
from rocketmq_py.wire.record import BodyRules, DecodedRecords, decode_response

LOOP_BYTES = 4 * MIB
"""Maximum bytes that the bodies of one answer may decompress to in the event loop; this takes about 10 ms."""


@functools.lru_cache
def in_loop(rules: BodyRules) -> BodyRules:
    """Return ``rules`` with decompression limits of at most :data:`LOOP_BYTES`, for decoding in the event loop.

    Cached: it is called for every answer, mostly with the same rules. Returns ``rules`` itself if no limit is higher.
    """
    limits = rules.limits
    if limits.max_body <= LOOP_BYTES and limits.max_total <= LOOP_BYTES:
        return rules
    return rules._replace(
        limits=DecompressionLimits(min(limits.max_body, LOOP_BYTES), min(limits.max_total, LOOP_BYTES))
    )


async def decode_pull(
    body: bytes, header: PullResponse, queue: MessageQueue, offset: int, tags: Collection[str], rules: BodyRules
) -> PulledMessages:
    """Decode the answer to a pull, in a thread if it decompresses to more than :data:`LOOP_BYTES`.

    Parameters as of :func:`~rocketmq_py.core.consumer.pull_result.pulled_messages`.
    """
    first = in_loop(rules)
    found = pulled_messages(body, header, queue, offset, tags, first)
    is_incomplete = found.undecoded or found.next_offset < header.next_begin_offset
    if first is rules or not is_incomplete:
        return found
    return await asyncio.to_thread(pulled_messages, body, header, queue, offset, tags, rules)


async def decode_pop(body: bytes, broker_name: str, rules: BodyRules) -> DecodedRecords:
    """Decode the answer to a pop, in a thread if it decompresses to more than :data:`LOOP_BYTES`.

    Parameters as of :func:`~rocketmq_py.wire.record.decode_response`.
    """
    first = in_loop(rules)
    found = decode_response(body, broker_name, first)
    if first is rules or not (found.undecoded or found.postponed):
        return found
    return await asyncio.to_thread(decode_response, body, broker_name, rules)
