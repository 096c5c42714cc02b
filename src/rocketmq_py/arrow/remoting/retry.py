"""Retries of requests to name servers and brokers, with growing pauses."""

from __future__ import annotations

import random
import time

from rocketmq_py.core.backoff import Retry


def new_retry(attempts: int, what: str) -> Retry:
    """Return a counter of consecutive failures that sleeps before the next attempt, from 50 ms up to 5 s.

    :param attempts: number of consecutive failures that are retried (option ``numRetries``); the next one is raised.
    :param what: the request, for the log: "reading orders-0".
    """
    return Retry(attempts, what, time.sleep, random.random, hint="option numRetries allows for more")
