"""Latency fault tolerance: a producer avoids a broker for some time after it was slow, refused a message or failed.

Tables and rules are Java's (MQFaultStrategy, LatencyFaultToleranceImpl). The time or a clock is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rocketmq_py.core.producer.send_attempts import RETRY_CODES, BrokerOf, RoundRobin, named_broker
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, RocketMQError
from rocketmq_py.model import MessageQueue

_ISOLATED_SECONDS = 10.0
"""Latency in seconds that is assumed for a failed send."""


class LatencyFaultTolerance(NamedTuple):
    """Options of how a producer avoids slow and failing brokers; names and defaults as in Java, times in seconds.

    After a send that took ``latency_max[i]`` or longer (the largest such limit counts), the producer avoids its broker
    for ``not_available_duration[i]`` if there is another one. A failed send counts as one that took 10 s.

    :param latency_max: latency limits, ascending.
    :param not_available_duration: how long to avoid the broker, for each limit.
    :param start_detector_enable: True probes avoided brokers in the background, and uses a broker that could not be
        reached only if no other one can be used, until it responds to a probe.
    :param detect_interval: minimum time between two probes of a broker.
    :param detect_timeout: timeout of a probe.
    """

    latency_max: Sequence[float] = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
    not_available_duration: Sequence[float] = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)
    start_detector_enable: bool = False
    detect_interval: float = 2.0
    detect_timeout: float = 0.2

    def check(self) -> LatencyFaultTolerance:
        """Return ``self``, after checking the values.

        :raises ConfigError: the tables are not ascending or of different length, or a time is invalid.
        """
        limits = list(self.latency_max)
        if not limits or len(limits) != len(self.not_available_duration) or limits != sorted(limits):
            raise ConfigError(
                f"latency_max {limits} must rise, and not_available_duration {list(self.not_available_duration)} must "
                "have as many entries: one for each limit"
            )
        if min(*limits, *self.not_available_duration) < 0 or min(self.detect_interval, self.detect_timeout) <= 0:
            raise ConfigError("latency_max, not_available_duration, detect_interval and detect_timeout are seconds")
        return self

    def pause(self, latency: float) -> float:
        """Return for how many seconds to avoid a broker after a send that took ``latency`` seconds; 0: not at all."""
        for limit, pause in zip(reversed(self.latency_max), reversed(self.not_available_duration), strict=True):
            if latency >= limit:
                return pause
        return 0.0


class _Fault:
    __slots__ = ("available_at", "check_at", "reachable")

    def __init__(self) -> None:
        self.available_at = 0.0
        self.check_at = 0.0
        self.reachable = True


class BrokerFaults:
    """The recent faults of brokers, by broker name. Thread-safe. Times are seconds of one clock.

    :param options: options with the tables of latencies.
    """

    def __init__(self, options: LatencyFaultTolerance) -> None:
        self.options = options
        self._brokers: dict[str, _Fault] = {}

    def ended(self, broker: str, latency: float, error: RocketMQError | None, now: float) -> None:
        """Record that a send to ``broker`` ended after ``latency`` seconds.

        :param error: why the send failed; None if it succeeded. Errors that every broker would return are ignored.
        :param now: current time in monotonic seconds.
        """
        refused = isinstance(error, BrokerError) and error.code in RETRY_CODES
        unreached = isinstance(error, NetworkError)
        pause = self.options.pause(_ISOLATED_SECONDS if refused or unreached else latency)
        fault = self._brokers.get(broker)
        if fault is None:
            if not pause and not refused and not unreached:
                return  # a broker without an entry is available
            fault = self._brokers.setdefault(broker, _Fault())
        if pause > 0:
            fault.available_at = max(fault.available_at, now + pause)
        fault.reachable = not refused and not (unreached and self.options.start_detector_enable)

    def is_available(self, broker: str, now: float) -> bool:
        """Return True if the broker is not to be avoided at time ``now`` (monotonic seconds)."""
        fault = self._brokers.get(broker)
        return fault is None or now >= fault.available_at

    def is_reachable(self, broker: str) -> bool:
        """Return True if the broker may be used when no broker is available: it does not count as unreachable."""
        fault = self._brokers.get(broker)
        return fault is None or fault.reachable

    # -- the detector

    def due(self, now: float) -> list[str]:
        """Return the names of the brokers to probe now; each of them again only ``detect_interval`` seconds later.

        :param now: current time in monotonic seconds.
        """
        due = [name for name, fault in list(self._brokers.items()) if now >= fault.check_at]
        for name in due:
            self._brokers[name].check_at = now + self.options.detect_interval
        return due

    def answered(self, broker: str) -> bool:
        """Record that a broker responded to a probe; return True if it counted as unreachable before."""
        fault = self._brokers.get(broker)
        if fault is None or fault.reachable:
            return False
        fault.reachable = True
        return True

    def forget(self, broker: str) -> None:
        """Remove the entry of a broker, because no route contains it any more."""
        self._brokers.pop(broker, None)


class AvailableFirst(RoundRobin):
    """Round-robin over queues that prefers available brokers.

    :param clock: returns the time in seconds, of the clock whose times are passed to ``faults``.
    """

    __slots__ = ("_clock", "_faults")

    def __init__(self, faults: BrokerFaults, clock: Callable[[], float], start: int = 0) -> None:
        super().__init__(start)
        self._faults = faults
        self._clock = clock

    def pick(
        self, queues: Sequence[MessageQueue], avoid: str | None = None, broker_of: BrokerOf = named_broker
    ) -> MessageQueue:
        """Return the next queue on an available broker, else on a reachable one, else on any broker.

        :param queues: the writable queues; at least one.
        :param avoid: name of a broker to use only if no other one is available or reachable.
        :param broker_of: returns the name of the broker that serves a queue.
        """
        now, faults = self._clock(), self._faults
        found = self._first(queues, avoid, broker_of, lambda broker: faults.is_available(broker, now))
        found = found or self._first(queues, avoid, broker_of, faults.is_reachable)
        return found or super().pick(queues)

    def _first(
        self, queues: Sequence[MessageQueue], avoid: str | None, broker_of: BrokerOf, suits: Callable[[str], bool]
    ) -> MessageQueue | None:
        for _ in queues:
            queue = super().pick(queues)
            broker = broker_of(queue)
            if broker != avoid and suits(broker):
                return queue
        return None
