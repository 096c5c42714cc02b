"""Loads about deliveries: each message to many groups, and very many delayed messages that are due in one second."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from benchmarks.control import Control
from benchmarks.drive import Driven
from benchmarks.errors import BenchError
from benchmarks.growth.sides import Running, Side, running
from benchmarks.growth.tables import QUEUES, group_names, write_groups, write_topics
from benchmarks.growth.works import PERIOD_SECONDS, Context, Measured, steady
from benchmarks.loads import Load

_DELIVERIES_A_SECOND = 100_000
_MOST_A_SECOND = 1_000
_SPREAD = Load("fan-out", inflight=4096, topic="spread", queues=QUEUES, size=128)
_WARM_SECONDS = 5.0

_DUE = Load("send", inflight=256, topic="due", queues=QUEUES, size=128)
_WARM_MESSAGES = 20_000
_SLOWER = 2.0
"""Sends may be so much slower than those of the warm-up before messages are sent too late."""
_SPARE_SECONDS = 5.0
_PARTS = 10
"""The messages of the second are due at so many different times."""
_LOOK_SECONDS = 0.05
_LAST_SECONDS = 300.0


def fan_out(context: Context, side: Side, groups: int) -> Measured:
    """Send messages that each of the groups gets, by a pull of each queue that waits for them."""
    rate = fan_out_rate(groups)

    def prepare(store: Path) -> None:
        write_topics(store, [_SPREAD.topic])
        write_groups(store, group_names(groups), _SPREAD.topic)

    def spread(server: Running, seconds: float, begin: int) -> Driven:
        count = round(rate * seconds / QUEUES) * QUEUES
        load = replace(_SPREAD, groups=groups, begin=begin)
        return context.generator.drive(server.broker, load, count, rate=rate, group="group", pids=[server.pid])

    with running(side, context.work, prepare) as server:
        warm = spread(server, _WARM_SECONDS, 0)
        driven = spread(server, PERIOD_SECONDS, warm.messages // QUEUES)
        return {
            "messages/s": driven.messages / driven.seconds, "deliveries/s": driven.deliveries / driven.seconds,
            "delivery p50, ms": driven.delivery_p50_us / 1_000, "delivery p99, ms": driven.delivery_p99_us / 1_000,
            "delivery longest, ms": driven.delivery_max_us / 1_000,
            "CPU per delivery, µs": 1e6 * sum(driven.server_cpu_seconds) / driven.deliveries,
        }  # fmt: skip


def fan_out_rate(groups: int) -> int:
    """Messages per second for so many groups: 1,000, and fewer if that were more than 100,000 deliveries."""
    return max(1, min(_MOST_A_SECOND, _DELIVERIES_A_SECOND // groups))


def due(context: Context, side: Side, count: int) -> Measured:
    """Send delayed messages that are due within the same second, and wait until all are in their topic."""
    with running(side, context.work, lambda store: write_topics(store, [_DUE.topic])) as server:
        warm = _send_due(context, server, _WARM_MESSAGES, time.time() + 3 + _WARM_MESSAGES / 5_000)
        found: Measured = {"sends/s": warm.rate}
        before = _wait_for(server, warm.messages)
        at = float(round(time.time() + lead_seconds(count, warm.rate)))
        for part in range(_PARTS):
            _send_due(context, server, count // _PARTS, at + part / _PARTS)
        if (late := time.time() - at) > 0:
            raise BenchError(f"the last delayed message was sent {late:.1f} s after the first was due")
        time.sleep(max(0.0, -late - _SPARE_SECONDS / 2))
        with steady(context, server, found):
            _wait_for(server, before + count // _PARTS * _PARTS)
            found["all there after, s"] = time.time() - at
        return found


def lead_seconds(count: int, rate: float) -> float:
    """Seconds from the first send of so many messages until they are due, if the warm-up's had a rate per second."""
    return _SPARE_SECONDS + _SLOWER * count / rate


def _send_due(context: Context, server: Running, count: int, at: float) -> Driven:
    load = replace(_DUE, properties={"TIMER_DELIVER_MS": str(round(at * 1000))})
    return context.generator.drive(server.broker, load, count)


def _wait_for(server: Running, wanted: int) -> int:
    """Wait until the topic has so many messages; return their number."""
    deadline = time.monotonic() + _LAST_SECONDS
    with Control(server.broker) as control:  # not kept open: a broker closes connections that are idle for two minutes
        while (found := sum(control.max_offsets(_DUE.topic, QUEUES))) < wanted:
            if time.monotonic() > deadline:
                raise BenchError(f"{control.address}: {wanted - found} delayed messages were not delivered")
            time.sleep(_LOOK_SECONDS)
    return found
