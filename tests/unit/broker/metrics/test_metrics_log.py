"""The metrics in the log."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from rocketmq_py.broker.metrics.metrics_log import MetricsLog


def test_metrics_are_logged_again_and_again_also_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        calls, done, now = 0, asyncio.Event(), iter(range(5, 100))

        async def collect() -> list[bytes]:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ZeroDivisionError
            if calls == 4:
                done.set()
            return [b"# HELP level Now.\n# TYPE level gauge\n", b'level{a="b"} %d.0\n' % calls]

        log = MetricsLog(collect, 1, lambda: next(now))
        log.start()
        await done.wait()
        await log.stop()
        await log.stop()

    asyncio.run(main())
    failed, first, second, *_ = [one for one in caplog.records if one.name.endswith("metrics_log")]
    assert (failed.getMessage(), failed.levelname) == ("metrics cannot be logged, and are tried again", "ERROR")
    for record, value, at in ((first, "2", 6), (second, "3", 7)):
        assert record.levelname == "INFO"
        [scope] = json.loads(record.getMessage())["scopeMetrics"]
        assert scope["scope"] == {"name": "broker-meter"}
        [point] = scope["metrics"][0]["gauge"]["dataPoints"]
        assert (point["asInt"], point["timeUnixNano"]) == (value, f"{at}000000")


def test_counters_count_since_the_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def collect() -> list[bytes]:
        return [b'# HELP n N.\n# TYPE n counter\nn{a="b"} 1.0\n']

    now = iter((5, 9))
    asyncio.run(MetricsLog(collect, 1000, lambda: next(now)).export())
    [scope] = json.loads(caplog.records[-1].getMessage())["scopeMetrics"]
    [point] = scope["metrics"][0]["sum"]["dataPoints"]
    assert (point["startTimeUnixNano"], point["timeUnixNano"]) == ("5000000", "9000000")
