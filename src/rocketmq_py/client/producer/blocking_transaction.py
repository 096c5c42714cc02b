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
    Then the producer sends its end: commit or rollback. If the end does not arrive, because the producer crashed or the
    network failed, the broker asks any producer of the group how the transaction ended, again and again.

    :param listener: runs local transactions (for :meth:`send_in_transaction`) and answers checks of brokers.
    :param check: answers checks of brokers, where :meth:`transaction` alone is used: takes the message, returns a
        state.
    :param topics: topics whose brokers may check from the start on. Without them only brokers of topics that this
        producer has sent to can reach it. Name the topics of transactions that a crash may leave open.
    :param check_threads: checks that run at the same time (checkThreadPoolMaxSize of Java's).
    :param check_request_hold_max: further checks that wait; others are dropped, and brokers repeat them.
    :param instance: as of :class:`~rocketmq_py.Producer`.
    :raises ConfigError: neither a listener nor a check, both, or an option that can never work.

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
        """Send a half message, run the listener's local transaction, and send its end to the broker.

        A plain ``execute_local_transaction`` runs in a thread: with asyncio one of the loop's, else the calling one. An
        exception it raises is logged, becomes the ``failure`` of the result, and makes the state UNKNOWN: the broker
        checks later.

        :param arg: passed on to the listener.
        :param timeout: seconds for storing the half message, instead of ``send_timeout``.
        :raises MessageIllegal: the message is illegal, or has a delay.
        Other errors as :meth:`send`: the local transaction did not run.
        """
        return self._blocking_send_in_transaction(message, arg, timeout)
