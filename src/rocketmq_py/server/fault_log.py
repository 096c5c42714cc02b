"""Log lines about connections that are closed because of the bytes they sent, limited per host and in total.

Without a limit, anybody who can connect could fill the log. Lines over the limit are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from rocketmq_py.core.log_limiter import LogLimiter
from rocketmq_py.server.peer import Peer

log = logging.getLogger(__name__)

_PORT_BYTES = 4
LINES_OF_A_HOST = 3
LINES = 20
"""Maximum of lines per minute for all hosts together, because one host may have many addresses.

``LINES_OF_A_HOST`` is the maximum per minute for each host.
"""


class FaultLog:
    """Logs connections that a server closes because of the bytes they sent.

    :param clock: returns the time in seconds; only differences matter.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._hosts = LogLimiter(limit=LINES_OF_A_HOST)
        self._all = LogLimiter(limit=LINES)
        self._untold = 0

    def closing(self, peer: Peer, why: str) -> None:
        """Log that the connection of ``peer`` is closed; over the limit, only count it for the next line."""
        now = self._clock()
        if not self._hosts.judge(peer.host[:-_PORT_BYTES], now).emit or not self._all.judge("", now).emit:
            self._untold += 1
            return
        more = f" ({self._untold} more since the last such line)" if self._untold else ""
        self._untold = 0
        log.warning("closing the connection of %s: %s%s", peer.address, why, more)
