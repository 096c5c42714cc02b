"""Brokers, name server and clients in one thread: on a network, disks and a clock that a seed decides.

``machine`` must be imported before anything of ``rocketmq_py``, so it is imported here.
"""

from tests.simulation import machine

__all__ = ["machine"]
