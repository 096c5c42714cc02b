"""Files of tables that stay usable, in memory, while the disk is full or fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.store.config.config_journal import JournaledFile, Step, Whole

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_RETRY_SHARE = 20
"""Retries of a failed write take at most 1/20 of the time."""


class TableFile:
    """The journaled file of a table. If it cannot be written, changes stay in memory, and it is written again later.

    A failure is logged once, and its end, too.

    :param whole: takes a snapshot of the table, to be written in another thread.
    :param clock: returns monotonic seconds.
    """

    def __init__(
        self,
        file: JournaledFile,
        whole: Whole,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._file = file
        self._whole = whole
        self._clock = clock
        self._retry_at = 0.0
        self.path = file.path
        self.load = file.load
        self.fault: OSError | None = None
        """The error that keeps changes out of the file; None if the file has all changes."""

    @property
    def is_intact(self) -> bool:
        """True if the content that was loaded is the one saved last, by its checksum."""
        return self._file.is_intact

    @property
    def may_be_old(self) -> bool:
        """True if entries may be missing from what was loaded, or nothing was loaded."""
        return self._file.may_be_old

    def save(self) -> None:
        """Write the complete file; a failure is only logged."""
        self._try(lambda: self._file.save(self._whole))

    def rewrite(self) -> None:
        """Write the complete file soon, because the table was replaced; a failure is only logged."""
        self._try(lambda: self._file.rewrite(self._whole))

    def catch_up(self) -> None:
        """Write the complete file if it lacks changes; call it every second.

        To limit the load, it waits after each complete write for 20 times the duration of that write.
        """
        if self.fault is None:
            self._try(lambda: self._file.catch_up(self._whole))
        elif self._clock() >= self._retry_at:
            self.save()

    def change(self, version: Mapping[str, Any], step: Step) -> None:
        """Append a change to the journal; after a failed write do nothing: :meth:`catch_up` will write all changes.

        :param version: the table's version after the change.
        :param step: the changed entries by member of the file and name; None for a removed entry.
        """
        if self.fault is None:
            self._try(lambda: self._file.change(version, step, self._whole))

    def _try(self, write: Callable[[], None]) -> None:
        begin = self._clock()
        try:
            write()
        except OSError as e:
            if self.fault is None:
                _log.error("%s cannot be written, so it is older than the broker's state: %s", self.path, e)
            self.fault = e
            now = self._clock()
            self._retry_at = now + max(_RETRY_SECONDS, (now - begin) * _RETRY_SHARE)
            return
        if self.fault is not None:
            self.fault = None
            _log.warning("%s can be written again", self.path)


class SavedTable:
    """Base of tables that have a file; subclasses set it as ``_file``."""

    _file: TableFile

    @property
    def write_fault(self) -> str | None:
        """Error message if the file lacks changes, which a restart would lose; None if it has all changes."""
        return None if self._file.fault is None else f"{self._file.path} cannot be written: {self._file.fault}"

    @property
    def is_intact(self) -> bool:
        """True if the content that was loaded is the one saved last, by its checksum."""
        return self._file.is_intact

    @property
    def may_be_old(self) -> bool:
        """True if entries may be missing from what was loaded, or nothing was loaded."""
        return self._file.may_be_old

    def persist(self) -> None:
        """Write the complete file; a failure is only logged."""
        self._file.save()

    def catch_up(self) -> None:
        """Write the complete file if it lacks changes; call it every second, see :meth:`TableFile.catch_up`."""
        self._file.catch_up()


def check_written(fault: str | None, what: str) -> None:
    """Refuse to confirm a change that a restart would lose.

    :param fault: :attr:`SavedTable.write_fault` of the table.
    :param what: the entries of the table, for the remark.
    :raises BrokerError: SYSTEM_ERROR, with the reason.
    """
    if fault is not None:
        remark = f"the {what} are changed until the next start only, unless the disk recovers before: {fault}"
        raise BrokerError.of(ResponseCode.SYSTEM_ERROR, remark)
