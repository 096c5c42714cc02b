"""The decisions of an exactly-once query, on durable storage.

A decision names the task attempts of a micro-batch that commit. It is written before the first transaction of the
micro-batch ends and never changed: the half messages of these attempts are committed, all others of the micro-batch are
rolled back. It is written only after all transactions of the previous micro-batch have ended. Module ``stores`` writes
the records.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rocketmq_py.arrow.row_properties import ATTEMPT, BATCH_ID, QUERY_ID, ROW_KEY
from rocketmq_py.errors import RocketMQError
from rocketmq_py.properties import Property
from rocketmq_py.spark.decision_store.stores import DecisionStore, store_at

_log = logging.getLogger(__name__)

_FORM = 1
_KEPT = 2
_NAME = re.compile(r"([0-9]{20})\.json")


class Verdict(enum.Enum):
    """The response to a transaction check; the value of each member is the reason for this response, in words."""

    COMMIT = "its row counts: it has to be delivered unless it has been"
    ROLLBACK = "its row does not count, or it has been delivered"
    UNKNOWN = "nothing is decided yet, or it is not of this query"


class DecisionError(RocketMQError):
    """A decision of an exactly-once query cannot be written or read, or contradicts the checkpoint."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a micro-batch: which half messages commit; all others of the micro-batch are rolled back.

    :ivar attempts: ids of the task attempts whose half messages commit.
    :ivar resent: for rows with several half messages, the unique key of the one that commits, by row key (property
        ``SPARK_ROW_KEY``).
    :ivar topics: the topics of the rows.
    :ivar brokers: names of the brokers that store the half messages.
    """

    query_id: str
    batch_id: int
    attempts: frozenset[str]
    resent: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()

    def counts(self, properties: Mapping[str, str]) -> bool:
        """Return True if this decision commits the half message with these properties."""
        attempt, row = properties.get(ATTEMPT), properties.get(ROW_KEY, "")
        is_last = self.resent.get(row, properties.get(Property.UNIQUE_KEY)) == properties.get(Property.UNIQUE_KEY)
        return self.is_about(properties) and attempt in self.attempts and is_last

    def is_about(self, properties: Mapping[str, str]) -> bool:
        """Return True if the half message with these properties is of the query and micro-batch of this decision."""
        return properties.get(QUERY_ID) == self.query_id and properties.get(BATCH_ID) == str(self.batch_id)

    def encode(self) -> bytes:
        """Return the record, a JSON document."""
        document = {
            "form": _FORM, "query": self.query_id, "batch": self.batch_id, "attempts": sorted(self.attempts),
            "resent": dict(self.resent), "topics": list(self.topics), "brokers": list(self.brokers),
        }  # fmt: skip
        return json.dumps(document, indent=1).encode()

    @staticmethod
    def decode(raw: bytes) -> Decision:
        """Decode a record.

        :raises DecisionError: ``raw`` is no decision, or was written in the format of a newer version.
        """
        try:
            found: dict[str, Any] = json.loads(raw)
            if found["form"] != _FORM:
                raise DecisionError(f"it has form {found['form']}, this version reads {_FORM}: use a newer version")
            return Decision(
                str(found["query"]), int(found["batch"]), frozenset(map(str, found["attempts"])),
                {str(row): str(key) for row, key in found["resent"].items()}, tuple(map(str, found["topics"])),
                tuple(map(str, found["brokers"])),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise DecisionError(f"it is no decision record: {e!r}") from e


def verdict(properties: Mapping[str, str], latest: Decision | None, completed: int | None = None) -> Verdict:
    """Return the response to a transaction check.

    :param properties: the properties of the half message.
    :param latest: the latest decision of this query; None if there is none.
    :param completed: id of a micro-batch whose transactions have all ended: the response for its half messages is
        ROLLBACK, so that none is delivered twice. None: there is no such micro-batch.
    """
    batch = properties.get(BATCH_ID, "")
    if latest is None or properties.get(QUERY_ID) != latest.query_id or not batch.isdecimal():
        return Verdict.UNKNOWN
    if int(batch) > latest.batch_id:
        return Verdict.UNKNOWN
    if latest.counts(properties) and completed != latest.batch_id:
        return Verdict.COMMIT
    return Verdict.ROLLBACK


# -- the records


class Decisions:
    """The stored decisions of one query.

    Two drivers may run the query at once: one that was considered dead, and its successor. Records are created and
    never replaced, so that only one driver can decide about a micro-batch. Old records are removed, so a driver that is
    several micro-batches behind could create a record again; it checks for later records after writing.

    :param location: directory or URI of the records, for error messages.
    """

    def __init__(self, location: str, store: DecisionStore) -> None:
        self._location = location
        self._store = store

    @staticmethod
    def at(location: str, sibling: str | None = None) -> Decisions:
        """Return the decisions in a directory or URI, which need not exist yet.

        :param sibling: name of a file of Spark's checkpoint that must exist next to a local directory: without it, the
            checkpoint is on another machine or file system. None: not checked.
        :raises ConfigError: Python has no access to this kind of location.
        """
        return Decisions(location, store_at(location, os.environ, sibling))

    def latest(self) -> Decision | None:
        """Read the decision about the latest micro-batch; None if none is stored.

        :raises DecisionError: the records cannot be listed or read.
        """
        with self._errors_named("read"):
            numbers = self._numbers()
            return Decision.decode(self._store.read(_name(numbers[-1]))) if numbers else None

    def make(self, decision: Decision) -> None:
        """Store a decision durably.

        :raises DecisionError: the write failed (the record may exist nevertheless, now or later), or there already is a
            decision about this micro-batch or a later one.
        """
        with self._errors_named("written"):
            numbers = self._numbers()
            _check_is_next(decision, numbers)
            self._create(_name(decision.batch_id), decision.encode())
            _check_is_next(decision, [number for number in self._numbers() if number != decision.batch_id])
        self._sweep(numbers[: 1 - _KEPT])

    def _create(self, name: str, content: bytes) -> None:
        try:
            self._store.create(name, content)
        except FileExistsError:
            # If the content is equal, the store's client has repeated our request: no two decisions are equal.
            if self._store.read(name) != content:
                raise

    def _sweep(self, numbers: list[int]) -> None:
        """Remove the records of the micro-batches ``numbers``. A failure is only logged: old records do no harm."""
        try:
            for number in numbers:
                self._store.remove(_name(number))
        except OSError as e:
            _log.warning("old decision records in %s cannot be removed: %s", self._location, e)

    def _numbers(self) -> list[int]:
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, self._store.names()) if match)

    @contextlib.contextmanager
    def _errors_named(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, DecisionError) as e:
            raise DecisionError(f"the decision record in {self._location} cannot be {what}: {e}") from e


def _check_is_next(decision: Decision, numbers: list[int]) -> None:
    if numbers and numbers[-1] >= decision.batch_id:
        raise FileExistsError(f"micro-batch {numbers[-1]} is decided already; does the query run twice?")


def _name(batch_id: int) -> str:
    return f"{batch_id:020d}.json"
