"""Futures of sends, of asyncio or of threads."""

from __future__ import annotations

import asyncio
import concurrent.futures

from rocketmq_py.model import SendResult

SendFuture = asyncio.Future[SendResult] | concurrent.futures.Future[SendResult]
"""Gets the result of a send, or its error: a RocketMQError, or what a queue selector raised."""


def resolve(future: SendFuture, outcome: SendResult | Exception) -> None:
    """Set the result or the error, unless the caller has cancelled the future."""
    if future.done():
        return
    if isinstance(outcome, SendResult):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
