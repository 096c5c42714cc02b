"""Which brokers a producer leaves alone for a while: those that were slow, refused or did not answer.

Knows Java's tables and rules (MQFaultStrategy, LatencyFaultToleranceImpl). Refuses to know how latencies are measured
and brokers are asked; the time is an argument, or a clock that is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rocketmq_py.core.producer.send_attempts import RETRY_CODES, RoundRobin
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, RocketMQError
from rocketmq_py.model import MessageQueue

_ISOLATED_SECONDS = 10.0
"""A broker that failed counts as one that took this long."""


class LatencyFaultTolerance(NamedTuple):
    """How a producer treats brokers that are slow or fail. Names and values are those of Java's producer; in seconds.

    A send that took ``latency_max[i]`` or longer keeps its broker from being chosen for ``not_available_duration[i]``,
    as long as there is another one. A send that failed counts as one of 10 s.

    :param latency_max: limits, rising.
    :param not_available_duration: as many times.
    :param start_detector_enable: ask brokers that cannot be reached whether they can be again, every three seconds;
        only then is a broker that could not be reached the last resort until it answers.
    :param detect_interval: how long a broker is not asked again.
    :param detect_timeout: how long it may take to answer.
    """

    latency_max: Sequence[float] = (0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
    not_available_duration: Sequence[float] = (0.0, 0.0, 2.0, 5.0, 6.0, 10.0, 30.0)
    start_detector_enable: bool = False
    detect_interval: float = 2.0
    detect_timeout: float = 0.2

    def check(self) -> LatencyFaultTolerance:
        """These options.

        :raises ConfigError: the two tables do not belong together, or a time is none.
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
        """Seconds for which a broker that took ``latency`` is left alone."""
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
    """What is known of brokers that were slow or failed. Safe to use from several threads.

    :param options: the tables.
    """

    def __init__(self, options: LatencyFaultTolerance) -> None:
        self.options = options
        self._brokers: dict[str, _Fault] = {}

    def ended(self, broker: str, latency: float, error: RocketMQError | None, now: float) -> None:
        """A send to ``broker`` ended after ``latency`` seconds.

        :param error: why it failed. What every broker would refuse says nothing of this one.
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
        """Whether a broker is to be sent to without reserve."""
        fault = self._brokers.get(broker)
        return fault is None or now >= fault.available_at

    def is_reachable(self, broker: str) -> bool:
        """Whether a broker is to be sent to when none is available."""
        fault = self._brokers.get(broker)
        return fault is None or fault.reachable

    # -- the detector

    def due(self, now: float) -> list[str]:
        """Brokers to be asked whether they answer; each not again before ``detect_interval`` is over."""
        due = [name for name, fault in list(self._brokers.items()) if now >= fault.check_at]
        for name in due:
            self._brokers[name].check_at = now + self.options.detect_interval
        return due

    def answered(self, broker: str) -> bool:
        """A broker answers; whether it could not be reached before."""
        fault = self._brokers.get(broker)
        if fault is None or fault.reachable:
            return False
        fault.reachable = True
        return True

    def forget(self, broker: str) -> None:
        """A broker is no longer one: no route has it."""
        self._brokers.pop(broker, None)


class AvailableFirst(RoundRobin):
    """Takes the queues in turn, those of brokers that are available first.

    :param clock: tells the time :class:`BrokerFaults` is used with.
    """

    __slots__ = ("_clock", "_faults")

    def __init__(self, faults: BrokerFaults, clock: Callable[[], float], start: int = 0) -> None:
        super().__init__(start)
        self._faults = faults
        self._clock = clock

    def pick(self, queues: Sequence[MessageQueue], avoid: str | None = None) -> MessageQueue:
        """The next queue of an available broker, else of a reachable one, else of any; not on ``avoid`` if possible."""
        now, faults = self._clock(), self._faults
        found = self._first(queues, avoid, lambda broker: faults.is_available(broker, now))
        found = found or self._first(queues, avoid, faults.is_reachable)
        return found or super().pick(queues)

    def _first(
        self, queues: Sequence[MessageQueue], avoid: str | None, suits: Callable[[str], bool]
    ) -> MessageQueue | None:
        for _ in queues:
            queue = super().pick(queues)
            if queue.broker_name != avoid and suits(queue.broker_name):
                return queue
        return None
