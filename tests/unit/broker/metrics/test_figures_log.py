"""The line with a broker's figures."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketmq_py.broker import Broker as RunningBroker, BrokerConfig
from rocketmq_py.broker.metrics.figures_log import FiguresLog
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.unit.broker.harness import broker
from tests.unit.broker.requests import send
from tests.unit.store.memoryfs import MemoryFileSystem


def test_rates_are_of_the_time_since_the_last_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        log = FiguresLog(running.services, lambda: 7, running.clock)
        client = running.connect()
        for count in (6, 3):
            for _ in range(count):
                assert client.ask(Code.SEND_MESSAGE_V2, send("t"), b"x").code == 0
            running.now += 2_000
            log.tick()
        lines = [one.getMessage() for one in caplog.records if one.name.endswith("figures_log")]
        behind = running.services.store.max_physical_offset - running.services.store.flushed_offset
    assert [line.split(";")[0] for line in lines] == ["messages/s in 3.0, out 0.0", "messages/s in 1.5, out 0.0"]
    rest = f"; connections 7; held pulls 0, pops 0; bytes not flushed {behind}; slow turns 0, longest 0 ms"
    assert lines[1].endswith(rest)


@pytest.mark.parametrize(("seconds", "jobs"), [(0, 0), (60, 1)])
def test_it_is_a_job_if_it_is_asked_for(tmp_path: Path, seconds: int, jobs: int) -> None:
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        made = RunningBroker(BrokerConfig(figures_log_seconds=seconds))
        found = made._figures(running.services, None)  # type: ignore[arg-type]
    assert [job.interval_ms for job in found] == [60_000] * jobs


@pytest.mark.parametrize("seconds", [-1, 86_401])
def test_an_interval_that_cannot_be_is_refused(seconds: int) -> None:
    with pytest.raises(ConfigError, match="figuresLogSeconds"):
        BrokerConfig(figures_log_seconds=seconds)


def test_lines_at_the_same_time_and_a_log_that_is_flushed_ahead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    with broker(tmp_path, fs=MemoryFileSystem()) as running:
        services = running.services
        log = FiguresLog(services, lambda: 0, running.clock)
        services.stats.put.count += 2
        services.stats.got.count += 5
        for ahead, behind in ((9, 0), (0, 0), (-1, 1)):
            monkeypatch.setattr(
                type(services.store), "flushed_offset", property(lambda it, n=ahead: it.max_physical_offset + n)
            )
            log.tick()
            assert f"; bytes not flushed {behind};" in caplog.records[-1].getMessage()
        running.now += 4_000
        services.stats.put.count += 8
        services.stats.got.count += 2
        log.tick()
    rates = [one.getMessage().split(";")[0] for one in caplog.records if one.name.endswith("figures_log")]
    assert rates == [
        "messages/s in 2000.0, out 5000.0", "messages/s in 0.0, out 0.0", "messages/s in 0.0, out 0.0",
        "messages/s in 2.0, out 0.5",
    ]  # fmt: skip
