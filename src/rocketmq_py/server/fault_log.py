"""Log lines about what clients sent wrongly, limited per host and in total.

Without a limit, anybody who can connect could fill the log. Lines over the limit are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from rocketmq_py.core.log_limiter import LogLimiter
from rocketmq_py.protocol.bodies.client import describe_client
from rocketmq_py.server.peer import Peer

log = logging.getLogger(__name__)

_PORT_BYTES = 4
LINES_OF_A_HOST = 3
LINES = 20
"""Maximum of lines per minute for all hosts together, because one host may have many addresses.

``LINES_OF_A_HOST`` is the maximum per minute for each host.
"""


class FaultLog:
    """Logs connections that a server closes because of the bytes they sent, and heartbeats that it refuses.

    :param clock: returns the time in seconds; only differences matter.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._hosts = LogLimiter(limit=LINES_OF_A_HOST)
        self._all = LogLimiter(limit=LINES)
        self._untold = 0

    def closing(self, peer: Peer, why: str) -> None:
        """Log that the connection of ``peer`` is closed; over the limit, only count it for the next line."""
        if self._may_log(peer):
            log.warning("closing the connection of %s: %s%s", peer.address, why, self._more())

    def refused_heartbeat(self, peer: Peer, body: bytes, language: str | int | None, why: object) -> None:
        """Log that a heartbeat is refused, which its client may ignore; over the limit, only count it.

        :param body: the body of the heartbeat, from which the client's id is taken.
        :param language: the client's language, from the header of the request.
        """
        if self._may_log(peer):
            client = describe_client(body, language)
            log.warning("the heartbeat of %s at %s is refused: %s%s", client, peer.address, why, self._more())

    def _may_log(self, peer: Peer) -> bool:
        now = self._clock()
        if self._hosts.judge(peer.host[:-_PORT_BYTES], now).emit and self._all.judge("", now).emit:
            return True
        self._untold += 1
        return False

    def _more(self) -> str:
        more = f" ({self._untold} more since the last such line)" if self._untold else ""
        self._untold = 0
        return more
