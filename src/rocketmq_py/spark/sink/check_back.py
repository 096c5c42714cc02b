"""Complete decided micro-batches by answering the brokers' transaction checks from the stored decision.

Needed after a crash, or if a connection broke while transactions were ended. A producer in the query's producer group
answers the checks; transactions that a broker has given up checking are resumed. A half message whose message is in its
topic already is rolled back, so that it is not delivered twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.client.admin.blocking import Admin
from rocketmq_py.client.producer.blocking_transaction import TransactionProducer
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageExt, TransactionState
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names
from rocketmq_py.spark.decision_store.decisions import Decision, Verdict, verdict

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
"""Seconds between two lookups of the open transactions; brokers do not notify about changes."""


class OpenTransactionsError(RocketMQError):
    """Transactions of a micro-batch with a stored decision are still open after the timeout."""


class CheckBack:
    """Answers transaction checks until the transactions of a decided micro-batch have ended.

    :param timeout: seconds to wait for brokers to check the transactions.
    """

    def __init__(self, settings: SendSettings, decision: Decision, timeout: float) -> None:
        self._settings = settings
        self._decision = decision
        self._timeout = timeout
        self._resumed: set[str] = set()

    def run(self) -> None:
        """Block until every committed row is in its topic; brokers that do not respond are waited for.

        :raises OpenTransactionsError: rows are still missing after the timeout.
        :raises RocketMQError: the cluster refuses a request.
        """
        namesrv, security = list(self._settings.namesrv), self._settings.security
        deadline = time.monotonic() + self._timeout
        with Admin(namesrv, tls=security.tls, credentials=security.credentials) as admin:
            if not self._pending(admin):
                return
            self._admin = admin
            group, topics = self._settings.producer_group, self._decision.topics
            with TransactionProducer(
                group, namesrv, check=self._check, topics=topics, tls=security.tls, credentials=security.credentials
            ):
                while left := self._pending(admin):
                    if time.monotonic() > deadline:
                        raise OpenTransactionsError(self._timeout_message(left))
                    time.sleep(_POLL_SECONDS)

    def _check(self, message: MessageExt) -> TransactionState:
        """Return the response to a broker's check of the half message ``message``."""
        answer = verdict(message.properties, self._decision)
        if answer is Verdict.COMMIT and self._is_delivered(message):
            _log.info("the message of transaction %s is in its topic already", message.transaction_id)
            answer = Verdict.ROLLBACK
        return TransactionState[answer.name]

    def _is_delivered(self, message: MessageExt) -> bool:
        """Return True if the message of this half message is stored in its topic already."""
        key = message.properties.get(Property.UNIQUE_KEY, "")
        return bool(self._admin.messages_by_key(message.topic, key, unique=True, max_messages=1))

    def _pending(self, admin: Admin) -> str:
        """Return the reason why the micro-batch is not complete, or an empty text if it is.

        A broker that does not respond is such a reason: it may have open transactions.
        """
        try:
            there = {queue.broker_name for queue in admin.queues(names.HALF_TOPIC)}
            away = sorted(set(self._decision.brokers) - there)
            if away:
                return f"broker {away[0]} is away"
            open_ = self._open(admin)
        except RocketMQError as e:
            if not e.retryable:
                raise
            return str(e)
        return f"{len(open_)} transactions are open, the first in {open_[0].queue}" if open_ else ""

    def _open(self, admin: Admin) -> list[MessageExt]:
        """Return the half messages to commit that have not ended; resume the checks that brokers have given up."""
        open_ = self._of_this_query(admin.open_transactions())
        for given_up in self._of_this_query(admin.given_up_transactions()):
            if not admin.messages_by_key(_topic(given_up), _key(given_up), unique=True, max_messages=1):
                open_.append(given_up)
                self._resume(admin, given_up)
        return open_

    def _of_this_query(self, halves: Iterable[MessageExt]) -> list[MessageExt]:
        group = self._settings.producer_group
        return [half for half in halves if _group(half.properties) == group and self._decision.counts(half.properties)]

    def _resume(self, admin: Admin, given_up: MessageExt) -> None:
        """Ask the broker to check a given-up transaction again; no effect if this object has already done that."""
        msg_id = given_up.offset_msg_id
        if msg_id not in self._resumed:
            admin.resume_transaction(msg_id)
            self._resumed.add(msg_id)

    def _timeout_message(self, left: str) -> str:
        which = f"micro-batch {self._decision.batch_id} (group {self._settings.producer_group})"
        return (
            f"{which} is decided, and not delivered within {self._timeout:.0f} s: {left}. Nothing is lost: start the"
            " query again when the brokers are available, it continues here"
        )


def _group(properties: Mapping[str, str]) -> str | None:
    return properties.get(Property.PRODUCER_GROUP)


def _key(half: MessageExt) -> str:
    return half.properties.get(Property.UNIQUE_KEY, "")


def _topic(half: MessageExt) -> str:
    return half.properties.get(Property.REAL_TOPIC, half.topic)
