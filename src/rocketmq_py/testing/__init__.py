"""Clusters for the tests of programs that use RocketMQ, and tools to make their life hard.

Everything is imported when it is first used: pytest loads this package's plugin in every run, also where no test wants
a broker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.testing.chaos import Chaos, Outcome, Stalled
    from rocketmq_py.testing.clock import ManualClock
    from rocketmq_py.testing.cluster import Cluster
    from rocketmq_py.testing.machines import Machines, Server
    from rocketmq_py.testing.proxy import TcpProxy

__all__ = ["Chaos", "Cluster", "Machines", "ManualClock", "Outcome", "Server", "Stalled", "TcpProxy"]

_HOMES = {
    "Chaos": "chaos", "Cluster": "cluster", "Machines": "machines", "ManualClock": "clock", "Outcome": "chaos",
    "Server": "machines", "Stalled": "chaos", "TcpProxy": "proxy",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
