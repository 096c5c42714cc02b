"""Latency fault tolerance: brokers a producer avoids for some time, because they were slow, refused or did not respond.

Tables and rules are Java's (MQFaultStrategy, LatencyFaultToleranceImpl). The time is an argument, or a clock that is
passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rocketmq_py.core.producer.send_attempts import RETRY_CODES, BrokerOf, RoundRobin, named_broker
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, RocketMQError
from rocketmq_py.model import MessageQueue

_ISOLATED_SECONDS = 10.0
"""The latency that a failed send counts as."""


class LatencyFaultTolerance(NamedTuple):
    """How a producer treats brokers that are slow or fail. Names and values are those of Java's producer; in seconds.

    After a send that took ``latency_max[i]`` or longer, its broker is avoided for ``not_available_duration[i]`` if
    there is another one. A failed send counts as one of 10 s.

    :param latency_max: limits, ascending.
    :param not_available_duration: durations, one per limit.
    :param start_detector_enable: probe unreachable brokers every three seconds; only then is an unreachable broker
        used last until it responds.
    :param detect_interval: time until a broker is probed again.
    :param detect_timeout: timeout of a probe.
    """

    latency_max: Sequence[float] = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
    not_available_duration: Sequence[float] = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)
    start_detector_enable: bool = False
    detect_interval: float = 2.0
    detect_timeout: float = 0.2

    def check(self) -> LatencyFaultTolerance:
        """Return these options.

        :raises ConfigError: the two tables do not fit, or a time is invalid.
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
        """Return the seconds for which a broker that took ``latency`` is avoided."""
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
    """Recent faults of brokers. Thread-safe.

    :param options: the tables.
    """

    def __init__(self, options: LatencyFaultTolerance) -> None:
        self.options = options
        self._brokers: dict[str, _Fault] = {}

    def ended(self, broker: str, latency: float, error: RocketMQError | None, now: float) -> None:
        """Record that a send to ``broker`` ended after ``latency`` seconds.

        :param error: why it failed. Errors that every broker would return are ignored.
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
        """True if a broker may be used without restriction."""
        fault = self._brokers.get(broker)
        return fault is None or now >= fault.available_at

    def is_reachable(self, broker: str) -> bool:
        """True if a broker may be used when none is available."""
        fault = self._brokers.get(broker)
        return fault is None or fault.reachable

    # -- the detector

    def due(self, now: float) -> list[str]:
        """Return the brokers to probe now; each is due again after ``detect_interval``."""
        due = [name for name, fault in list(self._brokers.items()) if now >= fault.check_at]
        for name in due:
            self._brokers[name].check_at = now + self.options.detect_interval
        return due

    def answered(self, broker: str) -> bool:
        """Record that a broker responded to a probe; return True if it was unreachable before."""
        fault = self._brokers.get(broker)
        if fault is None or fault.reachable:
            return False
        fault.reachable = True
        return True

    def forget(self, broker: str) -> None:
        """Remove a broker that no route has any more."""
        self._brokers.pop(broker, None)


class AvailableFirst(RoundRobin):
    """Round-robin over queues that prefers available brokers.

    :param clock: the clock that :class:`BrokerFaults` is used with.
    """

    __slots__ = ("_clock", "_faults")

    def __init__(self, faults: BrokerFaults, clock: Callable[[], float], start: int = 0) -> None:
        super().__init__(start)
        self._faults = faults
        self._clock = clock

    def pick(
        self, queues: Sequence[MessageQueue], avoid: str | None = None, broker_of: BrokerOf = named_broker
    ) -> MessageQueue:
        """Return the next queue of an available broker, else of a reachable one, else of any; not on ``avoid`` if
        possible.
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
