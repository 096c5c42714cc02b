"""Check that log, queues, index, checkpoint and config files of a store on disk agree.

One scan of the commit log checks every record and compares it with its consume queue and the index, which are read in
parallel. What the next start repairs (the store was not closed cleanly) or what may be incomplete (a broker uses the
store) is a note; everything else that is wrong is a problem. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rocketmq_py.errors import StoreError
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.log.checkpoint import Checkpoint
from rocketmq_py.store.log.scan import Found, LogScan, next_after
from rocketmq_py.store.tools.findings import Findings
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.store.tools.verify_index import IndexCheck
from rocketmq_py.store.tools.verify_queue import QueueCheck
from rocketmq_py.wire import fastjson

_PROGRESS_EVERY = 4 * 1024 * 1024


class Counts(NamedTuple):
    """Numbers of checked items."""

    records: int
    log_bytes: int
    queues: int
    queue_entries: int
    index_files: int
    index_entries: int
    config_files: int


class Report(NamedTuple):
    """Result of a check."""

    state: str
    log_begin: int
    log_end: int
    counts: Counts
    findings: Findings

    @property
    def is_valid(self) -> bool:
        """True if there are no problems; notes do not count."""
        return not self.findings.problems


def verify(store: OfflineStore, progress: Callable[[int, int], None] | None = None) -> Report:
    """Check all files of a store.

    :param progress: called periodically with the number of bytes of the log that are scanned, and their total.
    :raises StoreError: a running broker has removed a file during the check.
    """
    try:
        return _Verification(store, progress).run()
    except FileNotFoundError as e:
        raise StoreError(f"{e.filename} was removed during the check, by a broker that cleans up: try again") from e


class _Verification:
    def __init__(self, store: OfflineStore, progress: Callable[[int, int], None] | None) -> None:
        self._store = store
        self._progress = progress
        self._findings = Findings(store.must_be_complete)
        self._queues = QueueCheck(store, self._findings)
        self._index = IndexCheck(store, self._findings)
        self._end = store.log.min_offset
        self._records = self._bytes = self._newest = 0

    def run(self) -> Report:
        store, findings = self._store, self._findings
        for odd in store.odd:
            findings.problem(str(odd.path), odd.what)
        for found in self._walk():
            self._take(found)
        self._queues.finish(self._end)
        self._index.finish(self._end)
        self._check_checkpoint()
        configs = self._check_configs()
        counts = Counts(
            self._records, self._bytes, len(store.queues), self._queues.entries, len(store.indexes),
            self._index.entries, configs,
        )  # fmt: skip
        return Report(store.state, store.log.min_offset, self._end, counts, findings)

    def _take(self, found: Found) -> None:
        properties = dispatch_fields.parse(found.properties)
        self._queues.take(found, properties)
        self._index.take(found, properties)
        self._records += 1
        self._bytes += found.size
        self._newest = max(self._newest, found.store_timestamp)

    # -- the log

    def _walk(self) -> Iterator[Found]:
        """Iterate over all records of the log; after damage the scan continues with the next whole one."""
        log, reported = self._store.log, 0
        total = len(log.starts) * log.file_size
        start = log.starts[0] if log.starts else None
        while start is not None:
            scan = LogScan(log, start)
            for found in scan:
                self._end = found.physical_offset + found.size
                if self._progress is not None and self._end - reported >= _PROGRESS_EVERY:
                    reported = self._end
                    self._progress(self._end - log.min_offset, total)
                yield found
            start = self._after(scan)
        if self._progress is not None:
            self._progress(total, total)

    def _after(self, scan: LogScan) -> int | None:
        """Offset of the next whole record after a scan, as a recovery finds it; None at the end of the log."""
        log = self._store.log
        following = next_after(log, scan)
        at = log.start_at_or_before(scan.end)
        where = str(log.path(at)) if at is not None else str(self._store.layout.commit_log)
        if following is not None:
            reason = scan.reason or "nothing is written there"
            self._findings.problem(where, f"the log is damaged from {scan.end} to {following}: {reason}")
        elif scan.reason is not None:
            self._findings.unfinished(where, f"the log is damaged at {scan.end}: {scan.reason}")
        return following

    # -- the small files

    def _check_checkpoint(self) -> None:
        path = self._store.layout.checkpoint
        if self._store.fs.size(path) is None:
            self._findings.note(str(path), "is missing: after a crash the next start would scan the whole log")
            return
        point = Checkpoint(self._store.fs, path)
        times = {
            "log": point.physic_msg_timestamp, "consume queues": point.logics_msg_timestamp,
            "index": point.index_msg_timestamp,
        }  # fmt: skip
        for name, time in times.items():
            if time < 0 or (self._newest and time > self._newest and not self._store.is_held):
                self._findings.problem(
                    str(path), f"says {time} for the {name}, but the newest message was stored at {self._newest}"
                )

    def _check_configs(self) -> int:
        """Check that config files can be read; returns their number."""
        fs, directory = self._store.fs, self._store.layout.config
        names = [name for name in fs.names(directory) if name.endswith(".json")]
        for name in names:
            error = self._error_in(fs.read(directory / name))
            if error:
                backup = self._error_in(fs.read(directory / f"{name}.bak"))
                advice = "its backup will be used" if not backup else f"nor its backup ({backup})"
                self._findings.problem(str(directory / name), f"cannot be read ({error}): {advice}")
        return len(names)

    def _error_in(self, data: bytes | None) -> str:
        if data is None:
            return "absent"
        try:
            fastjson.loads(data)
        except ValueError as e:
            return str(e) or "not JSON"
        return ""
