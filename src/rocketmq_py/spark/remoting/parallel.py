"""Asks several servers at once, from blocking code."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_MOST_THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


def at_once(work: Callable[[T], R], items: Collection[T]) -> list[R]:
    """The results of ``work`` for each item, in their order, of up to 16 threads.

    :raises BaseException: the error of the first item that has one, after all have ended.
    """
    if len(items) < 2:
        return [work(one) for one in items]
    with ThreadPoolExecutor(min(len(items), _MOST_THREADS), "rocketmq-ask") as threads:
        return list(threads.map(work, items))
