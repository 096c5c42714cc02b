"""Comparison of consume queues with the log: offsets without gaps, and an entry for every record."""

from __future__ import annotations

from collections.abc import Collection

from rocketmq_py.core.paths import component_fault
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.config.config_journal import JournaledFile
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue.consume_queue import Entry, is_blank
from rocketmq_py.store.tools.findings import Findings
from rocketmq_py.store.tools.offline import OfflineStore, QueueView

_AT_ONCE = 1024
_NEWEST_EXTENDED = -(1 << 31) - 1
"""Tags codes up to this are addresses in an extension file, not hashes."""

Key = tuple[str, int]
Wanted = tuple[int, int, int | None]
"""The entry that a record must have: physical offset, size, and tags code or None if it cannot be derived."""


class _Queue:
    """State of one queue during the scan of the log."""

    __slots__ = ("expected", "first", "is_batched", "missing", "next", "place", "superseded", "view")

    def __init__(self, key: Key, view: QueueView | None, first: int) -> None:
        self.place = f"consume queue {key[0]}-{key[1]}"
        self.view = view
        self.is_batched = False
        self.first = self.next = first
        self.expected: list[Wanted] = []
        """Entries of the records from ``next - len(expected)`` on."""
        self.superseded = 0
        """Number of records whose entry points to a later record."""
        self.missing: list[str] = []
        """Ranges of offsets without entries, as text for findings.

        These and superseded entries are no problem if the queue is created again by a later record of the log.
        """


class QueueCheck:
    """Compares the consume queues with the records of the log, which :meth:`take` gets in their order."""

    def __init__(self, store: OfflineStore, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._queues: dict[Key, _Queue] = {}
        self.entries = 0
        """Number of entries compared."""

    def take(self, found: Found, properties: dict[bytes, bytes]) -> None:
        """Check the queue offset of the next record, and remember it to compare its entry together with others."""
        if not dispatch_fields.has_entry(found.sys_flag):
            return
        key = (found.topic, found.queue_id)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(key, self._store.queues.get(key), found.queue_offset)
            queue.is_batched = dispatch_fields.is_inner_batch(found.sys_flag) or self._store.has_batch_queues(*key)
            if queue.is_batched:
                queue.view = None
                self._findings.note(queue.place, "is a batch consume queue: its units are not checked")
        elif found.queue_offset != queue.next:
            self._jump(queue, found)
        if queue.is_batched:
            queue.next += dispatch_fields.inner_count(found.sys_flag, properties)
            return
        queue.next += 1
        queue.expected.append((found.physical_offset, found.size, _code(found, properties)))
        if len(queue.expected) >= _AT_ONCE:
            self._compare(queue)

    def _jump(self, queue: _Queue, found: Found) -> None:
        """Report a record whose queue offset is not the expected one, and expect the offsets after it from now on.

        A larger offset is a problem; a smaller one is only a note, because it means that the topic was created again.
        """
        self._compare(queue)
        at = found.physical_offset
        if found.queue_offset < queue.next:
            # The topic was deleted and created again: its old records stay in the log until they expire.
            self._findings.note(queue.place, f"begins again with offset {found.queue_offset} at {at} of the log, after "
                                             f"offset {queue.next - 1}")  # fmt: skip
            queue.superseded = 0
            queue.missing.clear()
            queue.first = found.queue_offset
        else:
            self._findings.problem(
                queue.place, f"the log has no offsets {queue.next} to {found.queue_offset - 1} before {at}"
            )
        queue.next = found.queue_offset

    def _compare(self, queue: _Queue) -> None:
        expected, offset = queue.expected, queue.next - len(queue.expected)
        queue.expected = []
        if queue.view is None or not expected:
            return
        actual = queue.view.read(offset, len(expected)) if offset >= queue.view.begin else []
        self.entries += len(actual)
        for number, (wanted, got) in enumerate(zip(expected, actual, strict=False), offset):
            if got != wanted:
                self._differ(queue, number, wanted, got)
        if len(actual) < len(expected):
            queue.missing.append(f"{offset + len(actual)} to {offset + len(expected) - 1}")

    def _differ(self, queue: _Queue, offset: int, wanted: Wanted, got: Entry) -> None:
        any_code = wanted[2] is None or got[2] <= _NEWEST_EXTENDED
        if got[:2] == wanted[:2] and any_code:
            return
        if got[0] > wanted[0]:
            queue.superseded += 1
            return
        self._findings.problem(
            queue.place,
            f"offset {offset} points to {got[0]} of the log, {got[1]} bytes, tags code {got[2]}: the log has "
            f"{wanted[0]}, {wanted[1]}, {'any' if wanted[2] is None else wanted[2]}",
        )

    def finish(self, log_end: int) -> None:
        """Compare the remaining records and report entries without a record; ``log_end`` is the end of the log."""
        for queue in self._queues.values():
            self._compare(queue)
            for offsets in queue.missing:
                self._findings.unfinished(queue.place, f"has no entries for offsets {offsets}, which the log has")
            if queue.superseded:
                self._findings.problem(queue.place, f"{queue.superseded} entries point to later records than theirs")
        for key, view in self._store.queues.items():
            known = self._queues.get(key)
            if known is None:
                self._check_unknown(view, log_end)
            elif known.view is not None:
                self._check_ends(view, known, log_end)
        self._check_without_files()

    def _check_unknown(self, view: QueueView, log_end: int) -> None:
        """Check a queue without records in the log: all its entries must have expired."""
        self._check_beyond(view, view.min, log_end)

    def _check_ends(self, view: QueueView, known: _Queue, log_end: int) -> None:
        if view.min < known.first:
            self._findings.problem(
                str(view), f"offsets {view.min} to {known.first - 1} point to records that the log does not have"
            )
        self._check_beyond(view, known.next, log_end)

    def _check_beyond(self, view: QueueView, offset: int, log_end: int) -> None:
        """Report entries from ``offset`` on, for which the log has no records."""
        offset = self._skip_fillers(view, offset)
        if offset >= view.end:
            return
        entries = view.read(offset, 1)
        first = entries[0][0] if entries else log_end
        # Entries beyond the end of the log can be of records that a crash has lost: recovery truncates them.
        report = self._findings.unfinished if first >= log_end else self._findings.problem
        report(
            str(view),
            f"offsets {offset} to {view.end - 1} point to records that the log does not have, from {first} on",
        )

    def _skip_fillers(self, view: QueueView, offset: int) -> int:
        """Return the first offset from ``offset`` on whose entry is not blank; note the blank ones before it.

        Blank entries stand for messages that the log has lost.
        """
        begin = offset
        while offset < view.end:
            entries = view.read(offset, _AT_ONCE)
            fillers = next((i for i, entry in enumerate(entries) if not is_blank(entry)), len(entries))
            offset += fillers
            if not entries or fillers < len(entries):
                break
        if offset > begin:
            self._findings.note(str(view), f"offsets {begin} to {offset - 1} have no messages: the log has lost them")
        return offset

    def _check_without_files(self) -> None:
        """Report queues that have records but no files, which is valid if their topic was deleted."""
        topics = self._topics()
        for key, queue in self._queues.items():
            if key in self._store.queues or queue.view is not None or queue.is_batched:
                continue
            what = f"has no files, and the log has its offsets {queue.first} to {queue.next - 1}"
            fault = component_fault(key[0])
            if fault is not None:
                self._findings.note(queue.place, f"{what}: its topic is not a valid folder name, {fault}")
            elif key[0] in topics or not self._store.must_be_complete:
                self._findings.unfinished(queue.place, what)
            else:
                self._findings.note(queue.place, f"{what}: the topic was deleted")

    def _topics(self) -> Collection[str]:
        tree = JournaledFile(self._store.layout.config / "topics.json", self._store.fs).load()
        table = tree.get("topicConfigTable") if isinstance(tree, dict) else None
        return table.keys() if isinstance(table, dict) else ()


def _code(found: Found, properties: dict[bytes, bytes]) -> int | None:
    """Tags code of a record's entry; None for a delayed message, whose delivery time depends on settings."""
    return (
        None
        if found.topic == dispatch_fields.SCHEDULE_TOPIC
        else dispatch_fields.tags_code(properties.get(dispatch_fields.TAGS))
    )
