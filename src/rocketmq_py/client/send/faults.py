"""Errors of sends that no broker has seen."""

from __future__ import annotations

import asyncio

from rocketmq_py.core.producer.send_attempts import NoMasterError
from rocketmq_py.errors import ClosedError, NoRouteError
from rocketmq_py.model import MessageQueue


def no_master(queue: MessageQueue) -> NoRouteError:
    """Return the error for a queue whose broker has no master now."""
    return NoMasterError(f"broker {queue.broker_name} of queue {queue} has no master known to the name servers")


def other_loop(own: asyncio.AbstractEventLoop) -> ClosedError:
    """Return the error for a call in another event loop than the producer's.

    :param own: the producer's event loop.
    """
    state = "is closed" if own.is_closed() else "is another one than that of this call"
    return ClosedError(
        f"this producer was started in an event loop that {state}: make, start and use a producer in the same loop, or "
        "use the blocking one (rocketmq_py.Producer)"
    )


def closed_error() -> ClosedError:
    """Return the error for a send after the producer was closed."""
    return ClosedError("this producer is closed; make a new one")
