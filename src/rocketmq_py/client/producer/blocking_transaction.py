"""The transaction producer for programs without an event loop: the same methods as asyncio's.

Generated from ``rocketmq_py.client.producer.transaction_producer``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from rocketmq_py.client.blocking_instance import ClientInstance, aio_instance
from rocketmq_py.client.producer.direct_transaction import DirectTransactionProducer
from rocketmq_py.client.producer.options import ProducerOptions
from rocketmq_py.client.producer.transaction import Check, TransactionListener
from rocketmq_py.client.producer.transaction_producer import TransactionProducer as AioSource
from rocketmq_py.model import Message, TransactionSendResult


class TransactionProducer(DirectTransactionProducer):
    """A producer that also sends messages in transactions.

    The broker stores such a message (the half message) and hides it from consumers while the local transaction runs.
    Then the producer sends a commit or rollback. If that does not arrive, because the producer crashed or the network
    failed, the broker asks the producers of the group for the outcome: it sends a check, repeatedly.

    :param listener: runs local transactions (for :meth:`send_in_transaction`) and answers checks of brokers.
    :param check: answers checks of brokers: takes the message, returns a state. Use it instead of a listener if you
        only use :meth:`transaction`.
    :param topics: topics whose brokers can send checks as soon as the producer has started. By default only brokers of
        topics that it has sent to can do so. Name the topics of transactions that a crash may leave open.
    :param check_threads: maximum number of checks that run at the same time (Java's checkThreadPoolMaxSize).
    :param check_request_hold_max: maximum number of waiting checks; brokers repeat those that are dropped beyond it.
    :param instance: as of :class:`~rocketmq_py.Producer`.
    :raises ConfigError: neither a listener nor a check, both of them, or an illegal option.

    All other options are those of :class:`~rocketmq_py.Producer`.

    Every call can be interrupted (Ctrl-C).
    In a forked child every call raises ForkedError; make an object of its own there.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        listener: TransactionListener | None = None,
        check: Check | None = None,
        topics: Iterable[str] = (),
        check_threads: int = 1,
        check_request_hold_max: int = 2000,
        instance: ClientInstance | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._wrap(
            AioSource(
                group,
                namesrv,
                listener=listener,
                check=check,
                topics=topics,
                check_threads=check_threads,
                check_request_hold_max=check_request_hold_max,
                instance=aio_instance(instance),
                **options,
            )
        )

    def send_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Send a half message, run the listener's local transaction, and send the commit or rollback to the broker.

        A plain ``execute_local_transaction`` runs in a thread of the loop's default executor; in the blocking producer
        it runs in the calling thread. If it raises, the exception is logged and becomes the ``failure`` of the result,
        and the state is UNKNOWN: the broker checks later.

        :param arg: passed to the listener's ``execute_local_transaction``.
        :param timeout: seconds for storing the half message, instead of ``send_timeout``.
        :raises MessageIllegal: the message is illegal, or has a delay.

        Other errors as of :meth:`send`; the local transaction did not run then.
        """
        return self._blocking_send_in_transaction(message, arg, timeout)
