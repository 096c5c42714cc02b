"""Reads what a running broker, of this project or of Apache RocketMQ, has at offsets of its commit log."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import ViewMessage
from rocketmq_py.remoting.blocking import BlockingConnection
from rocketmq_py.tls import Tls, client_context
from rocketmq_py.wire.signing import Credentials

_TIMEOUT = 10.0


class ReplicaReader:
    """A connection to a master or slave, to be used in a ``with`` statement; its instances are ``Read`` functions.

    :param address: ``host:port`` of the broker.
    :raises ConnectError: the broker cannot be reached.
    """

    def __init__(self, address: str, tls: Tls = None, credentials: Credentials | None = None) -> None:
        context = client_context(tls)
        self._connection = BlockingConnection.connect(address, _TIMEOUT, tls=context, credentials=credentials)

    def __call__(self, offset: int) -> bytes | None:
        """Return the record at an offset; None if the broker has none there.

        :raises BrokerError: the broker refuses the request.
        :raises RequestTimeout: the broker does not answer.
        :raises ConnectionLost: the connection breaks.
        """
        try:
            answer = self._connection.call(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=offset))
        except BrokerError as e:
            if e.code == ResponseCode.SYSTEM_ERROR:
                return None
            raise
        return bytes(answer.body)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
