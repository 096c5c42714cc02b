"""An embedded cluster for the tests of programs that use RocketMQ, and tools to make its life hard.

Everything is imported when it is first used: pytest loads this package's plugin in every run, also where no test wants
a broker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.testing.clock import ManualClock
    from rocketmq_py.testing.cluster import Cluster
    from rocketmq_py.testing.proxy import TcpProxy

__all__ = ["Cluster", "ManualClock", "TcpProxy"]

_HOMES = {"Cluster": "cluster", "ManualClock": "clock", "TcpProxy": "proxy"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
