"""Call a blocking function for several items at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_MOST_THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


def at_once(work: Callable[[T], R], items: Collection[T]) -> list[R]:
    """Call ``work`` for each item, in up to 16 threads; return the results in the order of the items.

    :raises BaseException: the error of the first item whose call failed, after all calls have ended.
    """
    if len(items) < 2:
        return [work(one) for one in items]
    with ThreadPoolExecutor(min(len(items), _MOST_THREADS), "rocketmq-ask") as threads:
        return list(threads.map(work, items))
