"""Calls as requests of remoting, at the broker of this process or at those of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import MessageQueue
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Reply


class Inner(NamedTuple):
    """A request of remoting.

    :ivar broker: the name of the broker that is asked; empty for the one of this process, or for any of a cluster.
    """

    code: RequestCode
    header: Any
    body: bytes = b""
    broker: str = ""


def is_answered(inner: Inner) -> bool:
    """Return False for a request that brokers do not answer: one that leaves a transaction open."""
    return inner.code != RequestCode.END_TRANSACTION or inner.header.commit_or_rollback != 0


class Requests(ABC):
    """Runs requests for calls."""

    @property
    @abstractmethod
    def here(self) -> str:
        """What serves the calls, for a client that names a broker not reached from here."""

    @abstractmethod
    def is_here(self, broker: str) -> bool:
        """Return True if calls about the messages of a broker are served here."""

    @abstractmethod
    def is_elsewhere(self, broker: str) -> bool:
        """Return True if a broker is another one, and requests are forwarded to it. What it has is not known here."""

    @abstractmethod
    def broker_of(self, queue: MessageQueue) -> str:
        """Return the broker of a queue that a client names.

        :raises CallRefused: it is not reached from here.
        """

    @abstractmethod
    def run(self, call: Call, inner: Inner, then: Callable[[Reply], None]) -> None:
        """Run one request; ``then`` gets the reply, in this call of the function or later.

        :raises CallRefused: too many requests are running.
        """

    @abstractmethod
    def run_alone(self, peer: Peer, inner: Inner, then: Callable[[Reply], None]) -> None:
        """Run a request for which no client waits; the caller makes durable what it stored."""

    @abstractmethod
    def finish_read(self) -> str | None:
        """Make durable what was stored; return why that failed, or None."""

    def run_all(self, call: Call, inners: Sequence[Inner], then: Callable[[list[Reply]], None]) -> None:
        """Run several requests; ``then`` gets all replies, in the same order.

        :raises CallRefused: too many requests are running.
        """
        replies: dict[int, Reply] = {}

        def taker(place: int) -> Callable[[Reply], None]:
            def take(reply: Reply) -> None:
                replies[place] = reply
                if len(replies) == len(inners):
                    then([replies[i] for i in range(len(inners))])

            return take

        for place, inner in enumerate(inners):
            if call.is_open:
                self.run(call, inner, taker(place))
