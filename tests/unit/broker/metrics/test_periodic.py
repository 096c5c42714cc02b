"""Metrics that a broker writes in an interval, to the log."""

from __future__ import annotations

import asyncio
import json
import logging
import threading

import pytest

from rocketmq_py.broker.metrics.metrics_log import MetricsLog
from rocketmq_py.broker.metrics.periodic import MetricsTarget, PeriodicExport


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

        log = PeriodicExport(collect, MetricsLog(), 1, lambda: next(now))
        log.start()
        await done.wait()
        await log.stop()
        await log.stop()

    asyncio.run(main())
    [failed] = [one for one in caplog.records if one.name.endswith("periodic")]
    assert failed.levelname == "ERROR"
    assert failed.getMessage() == "metrics cannot be written, and are tried again in 0 s"
    assert failed.exc_info is not None
    first, second, *_ = [one for one in caplog.records if one.name.endswith("metrics_log")]
    for record, value, at in ((first, "2", 6), (second, "3", 7)):
        assert record.levelname == "INFO"
        [scope] = json.loads(record.getMessage())["scopeMetrics"]
        assert scope["scope"] == {"name": "broker-meter"}
        [point] = scope["metrics"][0]["gauge"]["dataPoints"]
        assert (point["asInt"], point["timeUnixNano"]) == (value, f"{at}000000")


def test_metrics_are_exported_once_an_interval_until_the_stop() -> None:
    times: list[float] = []

    class Noting(PeriodicExport):
        async def export(self) -> None:
            times.append(asyncio.get_running_loop().time())

    async def nothing() -> list[bytes]:
        return []

    async def main() -> float:
        export, begun = Noting(nothing, MetricsLog(), 60_000, lambda: 5), asyncio.get_running_loop().time()
        export.start()
        await asyncio.sleep(150)
        await export.stop()
        await asyncio.sleep(600)
        return begun

    begun = asyncio.run(main())
    assert [round(time - begun, 1) for time in times] == [60, 120]


def test_counters_count_since_the_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def collect() -> list[bytes]:
        return [b'# HELP n N.\n# TYPE n counter\nn{a="b"} 1.0\n']

    now = iter((5, 9))
    asyncio.run(PeriodicExport(collect, MetricsLog(), 1000, lambda: next(now)).export())
    [scope] = json.loads(caplog.records[-1].getMessage())["scopeMetrics"]
    [point] = scope["metrics"][0]["sum"]["dataPoints"]
    assert (point["startTimeUnixNano"], point["timeUnixNano"]) == ("5000000", "9000000")


class Away(MetricsTarget):
    """Cannot be written to for the first two times."""

    def __init__(self) -> None:
        self.calls = list[tuple[str, int, int]]()
        self.third = threading.Event()
        self.closed = 0

    def write(self, exposition: str, began_ms: int, now_ms: int) -> None:
        self.calls.append((exposition, began_ms, now_ms))
        if len(self.calls) < 3:
            raise ConnectionError("nobody is there")
        self.third.set()

    def close(self) -> None:
        self.closed += 1


def test_a_target_that_is_away_is_one_warning_each_time(caplog: pytest.LogCaptureFixture) -> None:
    target, now = Away(), iter(range(100))

    async def collect() -> list[bytes]:
        return [b"a", b"b"]

    async def main() -> None:
        export = PeriodicExport(collect, target, 1, lambda: next(now))
        export.start()
        assert await asyncio.to_thread(target.third.wait, 60)
        await export.stop()

    asyncio.run(main())
    assert target.calls[:3] == [("ab", 0, 1), ("ab", 0, 2), ("ab", 0, 3)]
    assert target.closed == 1
    texts = [(one.levelname, one.getMessage(), one.exc_info) for one in caplog.records]
    assert texts == [("WARNING", "metrics cannot be written, and are tried again in 0 s: nobody is there", None)] * 2


@pytest.mark.parametrize(("in_delta", "values"), [(True, [["7"], ["2"], ["7"]]), (False, [["7"], ["9"], [], ["7"]])])
def test_the_log_has_deltas_if_it_is_asked_for_them(
    caplog: pytest.LogCaptureFixture, in_delta: bool, values: list[list[str]]
) -> None:
    caplog.set_level(logging.INFO)
    log = MetricsLog(in_delta=in_delta)
    head = "# HELP sent_total x\n# TYPE sent_total counter\n"
    for now, text in enumerate(
        (f"{head}sent_total{{}} 7.0\n", f"{head}sent_total{{}} 9.0\n", "", f"{head}sent_total{{}} 7.0\n")
    ):
        log.write(text, 0, now)
    lines = [json.loads(one.getMessage())["scopeMetrics"][0]["metrics"] for one in caplog.records]
    found = [[point["asInt"] for one in line for point in one["sum"]["dataPoints"]] for line in lines]
    assert [line for line in found if line or not in_delta] == values
