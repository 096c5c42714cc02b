"""Futures of sends: those of asyncio, and those of ``concurrent.futures`` for threads."""

from __future__ import annotations

import asyncio
import concurrent.futures

from rocketmq_py.model import SendResult

SendFuture = asyncio.Future[SendResult] | concurrent.futures.Future[SendResult]
"""The future of a send: its result, or its error, which is a RocketMQError or what a queue selector raised."""


def resolve(future: SendFuture, outcome: SendResult | Exception) -> None:
    """Set the result or the error of a future, unless it is done or cancelled."""
    if future.done():
        return
    if isinstance(outcome, SendResult):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
