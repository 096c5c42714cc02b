"""Tools for tests of programs that use RocketMQ: an embedded cluster, a fault-injecting proxy and a manual clock.

Names are imported on first use, because pytest loads this package's plugin in every run, even without tests that need a
broker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.testing.clock import ManualClock
    from rocketmq_py.testing.cluster import Cluster
    from rocketmq_py.testing.proxy import TcpProxy

__all__ = ["Cluster", "ManualClock", "TcpProxy"]

_MODULES = {"Cluster": "cluster", "ManualClock": "clock", "TcpProxy": "proxy"}
_REMOVED = frozenset({"Chaos", "Machines", "Outcome", "Server", "Stalled"})


def __getattr__(name: str) -> Any:
    if name in _REMOVED:
        raise AttributeError(
            f"{__name__}.{name} is no longer part of the package: the chaos kit is in the project's own tests "
            "(tests/chaoskit of a source checkout)"
        )
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
