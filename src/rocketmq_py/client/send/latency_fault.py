"""Records slow and failing brokers of a producer, and probes periodically whether they answer again.

``core.producer.latency_fault`` decides how long a broker is avoided.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from rocketmq_py.client.client_instance import ClientInstance, every
from rocketmq_py.core.producer.latency_fault import AvailableFirst, BrokerFaults, LatencyFaultTolerance
from rocketmq_py.core.producer.send_attempts import RoundRobin
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.offset import GetMaxOffset
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

_ROUND_SECONDS = 3.0


class LatencyFaultDetector:
    """Records latencies and failures of sends by broker, and makes producers prefer queues of available brokers.

    :param topics: returns the topics of the producer; a probe asks for the max offset of a queue of one of them.
    """

    def __init__(
        self, options: LatencyFaultTolerance, instance: ClientInstance, topics: Callable[[], set[str]]
    ) -> None:
        self.faults = BrokerFaults(options)
        self._instance = instance
        self._topics = topics
        self._detecting = Background()
        if options.start_detector_enable:
            self._detecting.start(every(_ROUND_SECONDS, _ROUND_SECONDS, self.detect))

    def turn(self) -> RoundRobin:
        """Make the round robin over the queues of a topic, which prefers queues of available brokers."""
        return AvailableFirst(self.faults, time.monotonic, random.getrandbits(16))

    def ended(self, broker: str, began: float, error: RocketMQError | None) -> None:
        """Record the end of a send.

        :param broker: the name of the broker.
        :param began: when the send began, in seconds of ``time.monotonic``.
        :param error: why the send failed; None if it succeeded.
        """
        now = time.monotonic()
        self.faults.ended(broker, now - began, error, now)

    async def detect(self) -> None:
        """Probe all avoided brokers whose next probe is due."""
        await asyncio.gather(*map(self._ask, self.faults.due(time.monotonic())))

    async def _ask(self, broker: str) -> None:
        address = self._instance.routes.master(broker)
        if address is None:
            self.faults.forget(broker)
            return
        topic = next(iter(self._topics()), None)
        if topic is None:
            return
        header = GetMaxOffset(topic=topic, queue_id=0)
        try:
            await self._instance.connections.invoke(
                address, RequestCode.GET_MAX_OFFSET, header, timeout=self.faults.options.detect_timeout
            )
        except RocketMQError as e:
            _log.debug("broker %s at %s still does not answer: %s", broker, address, e)
            return
        if self.faults.answered(broker):
            _log.info("broker %s at %s answers again", broker, address)

    def close(self) -> None:
        """Stop probing brokers."""
        self._detecting.cancel()
