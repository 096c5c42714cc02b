"""What a proxy counts of itself."""

from __future__ import annotations

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.proxy.figures import CONNECTIONS, REQUESTS, RUNNING, UNREACHABLE, Figures

POP = RequestCode.POP_MESSAGE


def samples(text: bytes) -> list[str]:
    return [line for line in text.decode().splitlines() if not line.startswith("#")]


def test_requests_are_counted_by_name_and_code() -> None:
    figures = Figures()
    for code in (0, 0, 2, UNREACHABLE, 12_345, 54_321):
        figures.answered(POP, code)
    text = figures.exposition({"pop": 3, "other": 0}, {CONNECTIONS: 7})
    assert samples(text) == [
        'rocketmq_py_proxy_requests_total{request="POP_MESSAGE",code="SUCCESS"} 2.0',
        'rocketmq_py_proxy_requests_total{request="POP_MESSAGE",code="SYSTEM_BUSY"} 1.0',
        'rocketmq_py_proxy_requests_total{request="POP_MESSAGE",code="UNREACHABLE"} 1.0',
        'rocketmq_py_proxy_requests_total{request="POP_MESSAGE",code="OTHER"} 2.0',
        'rocketmq_py_proxy_requests_running{kind="pop"} 3.0',
        'rocketmq_py_proxy_requests_running{kind="other"} 0.0',
        "rocketmq_py_proxy_connections{} 7.0",
    ]


def test_one_metric_may_be_wanted_alone() -> None:
    figures = Figures()
    figures.answered(POP, 0)
    for family in (REQUESTS, RUNNING, CONNECTIONS):
        text = figures.exposition({"pop": 1}, {CONNECTIONS: 1}, frozenset({family.name}))
        assert [line.partition("{")[0] for line in samples(text)] == [family.name]
