"""The topic whose permissions cover a stored record."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketmq_py.properties import Property
from rocketmq_py.protocol import names

_DEFERRED = frozenset(
    {names.HALF_TOPIC, names.CHECK_MAX_TIME_TOPIC, names.SCHEDULE_TOPIC, names.TIMER_TOPIC}
)  # fmt: skip
"""Internal topics of half, delayed and timed messages, whose property REAL_TOPIC has the topic they were sent to.

Clients cannot send to these topics.
"""


def real_topic(stored_in: str, properties: Callable[[], Mapping[str, str]]) -> str:
    """Return the topic that a record was sent to.

    :param stored_in: the topic in the record.
    :param properties: returns its properties; called only where they matter.
    """
    name = stored_in
    if name in _DEFERRED:
        name = properties().get(Property.REAL_TOPIC, name)
    if names.is_retry_topic(name):
        return name.partition("+")[0]  # POP's retry topics of version 2: %RETRY%group+topic
    return name
