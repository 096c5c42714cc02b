"""Rates of the brokers and lags of a group over time."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from rocketmq_py.console.history import INTERVAL_SECONDS, lag_of
from rocketmq_py.console.page import Page
from rocketmq_py.console.state import Console

RATE_COLUMNS = ("at", "broker", "inPerSecond", "outPerSecond")
QUEUE_COLUMNS = ("topic", "broker", "queue", "lag", "least", "most", "lost")


async def rates(console: Console, request: Request) -> Page:
    """Show the rates of all brokers over time."""
    del request
    await console.history.watch_rates()
    samples = list(console.history.rates)
    names = sorted({name for _, row in samples for name in row})
    nothing = (None, None)
    data: dict[str, Any] = {
        "intervalSeconds": INTERVAL_SECONDS,
        "at": [at for at, _ in samples],
        "series": [
            {"name": f"{name} {direction}", "values": [row.get(name, nothing)[number] for _, row in samples]}
            for name in names
            for number, direction in enumerate(("in", "out"))
        ],
        "rows": [
            {"at": at, "broker": name, "inPerSecond": row[name][0], "outPerSecond": row[name][1]}
            for at, row in reversed(samples[-30:])
            for name in sorted(row)
        ],
    }
    return Page("rates.html", data, "rows", RATE_COLUMNS)


async def group(console: Console, request: Request) -> Page:
    """Show the lag of each queue of a group over time, and which queues changed their owner."""
    name = request.path_params["group"]
    samples = await console.history.watch_group(name)
    queues = sorted(samples.queues)
    totals = samples.totals()
    rows = []
    for queue in queues:
        cells = samples.queues[queue]
        known = [lag for one in cells if (lag := lag_of(one)) is not None]
        rows.append(
            {
                "topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id, "lag": lag_of(cells[-1]),
                "least": min(known, default=None), "most": max(known, default=None),
                "lost": any(one < -1 for one in cells),
            }
        )  # fmt: skip
    data = {
        "group": name,
        "intervalSeconds": INTERVAL_SECONDS,
        "at": list(samples.at),
        "total": totals,
        "series": [{"name": "lag", "values": totals}],
        "queues": rows,
        "cells": [list(samples.queues[queue]) for queue in queues],
        "changes": list(samples.changes),
        "leftOut": samples.left_out,
        "last": [{"at": at, "lag": lag} for at, lag in list(zip(samples.at, totals, strict=True))[-30:]][::-1],
    }
    return Page("history.html", data, "queues", QUEUE_COLUMNS)
