"""Retries of requests to name servers and brokers: the shared back-off, counted by option ``numRetries``."""

from __future__ import annotations

import random
import time

from rocketmq_py.core.backoff import Retry


def new_retry(attempts: int, what: str) -> Retry:
    """A counter of failures in a row that sleeps between attempts, from 50 ms up to 5 s.

    :param attempts: failures in a row that are retried.
    :param what: the request, for the log: "reading orders-0".
    """
    return Retry(attempts, what, time.sleep, random.random, hint="option numRetries allows for more")
