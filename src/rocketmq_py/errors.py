"""The errors of this package, as one tree.

The class attributes help callers to decide: ``retryable`` (the same call may succeed later or elsewhere) and
``refresh_route`` (the route of the topic may be out of date).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self


class RocketMQError(Exception):
    """Root of all errors of this package."""

    retryable: ClassVar[bool] = False
    refresh_route: ClassVar[bool] = False


class ConfigError(RocketMQError, ValueError):
    """An invalid option, name or combination of options."""


class NameIllegal(ConfigError):
    """A name that cannot be used for a file or folder, because the path would leave the parent folder."""


class SqlIllegal(ConfigError):
    """An SQL92 expression that no broker accepts.

    ``expression`` is the whole text, ``position`` the 0-based position of the error, ``reason`` what is expected there.
    """

    def __init__(self, expression: str, position: int, reason: str) -> None:
        self.expression = expression
        self.position = position
        self.reason = reason
        place = f"{_around(expression, position)!r}, character {position + 1}"
        super().__init__(f"illegal SQL expression {place}: {reason}")

    def __reduce__(self) -> tuple[type[SqlIllegal], tuple[str, int, str]]:
        return type(self), (self.expression, self.position, self.reason)


def shortened(text: str, most: int = 100) -> str:
    """Return ``text``, cut to ``most`` characters followed by ``...`` if it is longer; for errors and log lines."""
    return text if len(text) <= most else f"{text[:most]}..."


def _around(text: str, position: int, room: int = 60) -> str:
    """Return up to ``room`` characters of ``text`` on each side of a position; ``...`` marks omitted text."""
    start, end = max(0, position - room), position + room
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


class ClosedError(RocketMQError):
    """The object was used after it was closed, or before it was started."""


class ForkedError(ClosedError):
    """The object was created in another process: sockets and threads do not survive a fork."""


class NotAssigned(RocketMQError, ValueError):
    """The message queue is not assigned to this consumer."""


class OffsetIllegal(RocketMQError, ValueError):
    """An offset outside the message queue's range."""


# -- protocol


class ProtocolError(RocketMQError):
    """Bytes that break the remoting protocol or the record layout."""


class CorruptFrame(ProtocolError):
    """A frame that cannot be decoded; its connection must be closed."""


class CorruptRecord(ProtocolError):
    """A stored message that cannot be decoded, because its lengths, checksum or other fields are inconsistent."""


class CorruptBody(CorruptRecord):
    """A stored message whose body cannot be decompressed or unwrapped; the records around it can be read."""


class DecompressionLimit(CorruptBody):
    """A compressed body that decompresses to more bytes than the reader's limit."""


class BadHeader(ProtocolError):
    """A well-formed frame whose header or body lacks a required field or has a value of the wrong type."""


class MessageIllegal(ProtocolError):
    """A message that breaks the rules of all brokers, such as the size limit; it is not sent or stored."""


# -- network


class NetworkError(RocketMQError):
    """The peer could not be reached or the connection broke."""

    retryable = True
    refresh_route = True


class ConnectError(NetworkError):
    """No connection could be made."""


class ConnectionLost(NetworkError):
    """The connection broke before the response arrived; the request may or may not have been executed."""


class RequestTimeout(NetworkError, TimeoutError):
    """No response in time; the request may or may not have been executed."""


class TooManySends(RocketMQError):
    """The producer's limit of sends in progress is reached and ``when_full="raise"``; send again later."""

    retryable = True


class NoRouteError(RocketMQError):
    """No name server has a route for the topic with a queue that the call could use."""

    retryable = True
    refresh_route = True


# -- answers of a broker or name server


class BrokerError(RocketMQError):
    """A broker or name server answered with a code other than success.

    ``code`` is the response code, ``remark`` the server's text, ``address`` the server's address.
    Use :meth:`of` to build the most specific subclass.
    """

    codes: ClassVar[tuple[int, ...]] = ()
    _by_code: ClassVar[dict[int, type[BrokerError]]] = {}

    def __init__(self, code: int, remark: str | None, address: str | None = None) -> None:
        self.code = code
        self.remark = remark or ""
        self.address = address
        where = f" from {address}" if address else ""
        super().__init__(f"code {code}{where}: {self.remark or type(self).__name__}")

    def __init_subclass__(cls) -> None:
        for code in cls.codes:
            BrokerError._by_code[code] = cls

    def __reduce__(self) -> tuple[type[BrokerError], tuple[int, str, str | None]]:
        return type(self), (self.code, self.remark, self.address)

    @staticmethod
    def of(code: int, remark: str | None, address: str | None = None) -> BrokerError:
        """Build the error for a response code: of the subclass that lists it in ``codes``, else a BrokerError."""
        return BrokerError._by_code.get(code, BrokerError)(code, remark, address)


class SystemError_(BrokerError):  # noqa: N801  (the name is a builtin, and the protocol's)
    """An internal error of the server (response code 1)."""

    codes = (1,)
    retryable = True


class SystemBusy(BrokerError):
    """The server is overloaded or refuses this kind of request for now (response codes 2, 215)."""

    codes = (2, 215)
    retryable = True


class RequestNotSupported(BrokerError):
    """The server does not support the request code (response code 3)."""

    codes = (3,)


class FlushTimeout(BrokerError):
    """The message is stored, but was not flushed or replicated in time (response codes 10, 11, 12)."""

    codes = (10, 11, 12)


class MessageRefused(BrokerError):
    """The server refuses the message or a parameter as illegal (response codes 13, 29)."""

    codes = (13, 29)


class ServiceNotAvailable(BrokerError):
    """The server's store is not writable, or the server is shutting down (response codes 14, 1500)."""

    codes = (14, 1500)
    retryable = True
    refresh_route = True


class PermissionDenied(BrokerError):
    """Access control, or the permission of the broker, topic or group, forbids the request (response code 16)."""

    codes = (16,)


class TopicNotExist(BrokerError):
    """The topic does not exist on the server (response code 17)."""

    codes = (17,)
    retryable = True
    refresh_route = True


class OffsetMoved(BrokerError):
    """The requested offset lies outside the queue (response code 21)."""

    codes = (21,)


class NotFound(BrokerError):
    """The server has nothing for the requested key, message or queue (response code 22)."""

    codes = (22,)


class SubscriptionError(BrokerError):
    """The group's subscription is unknown to the broker, outdated or not parseable (response codes 23-25, 27, 28)."""

    codes = (23, 24, 25, 27, 28)
    retryable = True


class GroupNotExist(BrokerError):
    """The consumer group does not exist on the server (response code 26)."""

    codes = (26,)


class NotLeader(BrokerError):
    """Another broker leads this queue of a static topic (response code 501); the topic's route names it."""

    codes = (501,)
    retryable = True
    refresh_route = True


class InvalidReceipt(BrokerError):
    """The receipt of a popped message is no longer valid (response code 208): its invisible time is over, or the
    message was already acked or extended with it. Unless it was acked, the message is delivered again.

    ``messages`` are the messages with invalid receipts; the call succeeded for its other messages.
    """

    codes = (208,)
    messages: Sequence[Any] = ()


class ConsumerNotOnline(BrokerError):
    """No member of the consumer group is connected to the broker (response code 206)."""

    codes = (206,)


# -- store


class StoreError(RocketMQError):
    """An operation of the message store failed."""


class StoreLocked(StoreError):
    """Another process has locked the store directory."""


class StoreCorrupt(StoreError):
    """Files of the store contradict each other or the configuration, and recovery cannot repair them."""


class QueueRebuilding(StoreError):
    """A consume queue cannot be read yet, because it is being rebuilt from the commit log."""

    retryable = True

    @classmethod
    def of(cls, topic: str, queue_id: int) -> Self:
        """Return the error for a queue."""
        return cls(f"queue {queue_id} of topic {topic} is being rebuilt from the commit log: try again later")


class IndexRebuilding(StoreError):
    """Messages cannot be found by their keys yet, because the index is being rebuilt from the commit log."""

    retryable = True


class ReplicaRefused(StoreError):
    """A slave refused replicated data, because it does not continue the slave's commit log or is not valid log data."""


class StoreNotWritable(StoreError):
    """The store refuses writes: disk full, IO error, or closing."""

    retryable = True
