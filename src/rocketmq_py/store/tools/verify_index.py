"""Comparison of index files with the log: every key of a record has an entry, every entry points to such a record.

Entries are nearly in the order of the log, so that the index is read in parallel with it. Entries that may be out of
order (the keys of one batch are added together) are kept and sorted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.index.index_file import IndexFile
from rocketmq_py.store.index.key_hash import key_hash
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.tools.findings import Findings
from rocketmq_py.store.tools.offline import OfflineStore
from rocketmq_py.wire.java_hash import string_hash

_ROLLBACK = 0xC
_BLOCK = 20_000
_OUT_OF_ORDER = 64 * 1024 * 1024
"""Bytes of the log within which entries may be in any order: the maximum size of a batch."""
_END = (1 << 63, 0, "")

_Filed = tuple[int, int, str]
"""Physical offset, hash, and name of the index file."""


class IndexCheck:
    """Compares the index files with the records of the log, which :meth:`take` gets in their order."""

    def __init__(self, store: OfflineStore, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._place = str(store.layout.index)
        self.entries = 0
        """Number of entries read."""
        self._stream = self._sorted()
        self._next: _Filed = next(self._stream, _END)
        self._first = self._next[0]
        self._topic_hashes: dict[str, int] = {}
        self._unfiled: list[int] = []
        self._before = 0

    # -- reading the files

    def _sorted(self) -> Iterator[_Filed]:
        """Iterate over all entries, sorted by physical offset."""
        kept: list[_Filed] = []
        newest = 0
        for entry in self._all():
            kept.append(entry)
            newest = max(newest, entry[0])
            if len(kept) >= _BLOCK and not len(kept) % _BLOCK:
                kept.sort()
                settled = [one for one in kept if one[0] < newest - _OUT_OF_ORDER]
                yield from settled
                del kept[: len(settled)]
        kept.sort()
        yield from kept

    def _all(self) -> Iterator[_Filed]:
        for file in self._store.indexes:
            if file.is_plausible:
                yield from self._file(file)
            else:
                self._findings.problem(str(file.path), "has a header that contradicts its size")

    def _file(self, file: IndexFile) -> Iterator[_Filed]:
        """Iterate over the entries of one file, and check the chains of its slots."""
        table = file.slots()
        newest, name, wrong = array("i", bytes(4 * len(table))), str(file.path), 0
        for number, (value, physical, _, previous) in enumerate(file.entries(), 1):
            self.entries += 1
            slot = value % len(table)
            wrong += previous != newest[slot]
            newest[slot] = number
            yield physical, value, name
        if wrong:
            self._findings.problem(name, f"{wrong} entries do not point to the previous entry of their slot")
        if newest != table:
            count = sum(a != b for a, b in zip(newest, table, strict=True))
            self._findings.unfinished(name, f"{count} slots do not point to their newest entry")

    # -- comparing

    def take(self, found: Found, properties: dict[bytes, bytes]) -> None:
        """Compare the keys of the next record with its index entries, and report differences."""
        filed = self._filed_at(found.physical_offset)
        rolled_back = found.sys_flag & _ROLLBACK == _ROLLBACK
        wanted = set() if rolled_back else self._hashes(found.topic, properties)
        for value, file in filed.items():
            if value not in wanted and value != self._tag_hash(found.topic, properties):
                self._findings.problem(
                    file, f"has an entry for a key that the record at {found.physical_offset} does not have"
                )
        if any(value not in filed for value in wanted):
            self._miss(found.physical_offset)

    def _filed_at(self, physical: int) -> dict[int, str]:
        """Return hash and index file of each entry of the record at ``physical``.

        Entries before it point to no record, which is reported.
        """
        while self._next[0] < physical:
            self._skip_dangling()
        filed = {}
        while self._next[0] == physical:
            filed[self._next[1]] = self._next[2]
            self._next = next(self._stream, _END)
        return filed

    def _skip_dangling(self) -> None:
        physical, _, file = self._next
        if physical >= self._store.log.min_offset:
            self._findings.problem(file, f"has an entry for {physical} of the log, where no record begins")
        self._next = next(self._stream, _END)

    def _hashes(self, topic: str, properties: dict[bytes, bytes]) -> set[int]:
        keys = [properties[dispatch_fields.UNIQ_KEY]] if dispatch_fields.UNIQ_KEY in properties else []
        keys += filter(None, properties.get(dispatch_fields.KEYS, b"").split(b" "))
        prefix = self._topic_hashes.get(topic)
        if prefix is None:
            prefix = self._topic_hashes[topic] = string_hash(f"{topic}#")
        return {key_hash(prefix, key) for key in keys}

    def _tag_hash(self, topic: str, properties: dict[bytes, bytes]) -> int:
        """Hash of a record's tags: newer Java brokers index messages by tags, too."""
        return key_hash(string_hash(f"{topic}#T#"), properties.get(dispatch_fields.TAGS, b""))

    def _miss(self, physical: int) -> None:
        if physical < self._first:
            self._before += 1
        elif self._next is _END:
            self._unfiled.append(physical)
        else:
            self._findings.problem(self._place, f"the record at {physical} cannot be found by all of its keys")

    def finish(self, log_end: int) -> None:
        """Report the entries after the last record, and the records without entries.

        :param log_end: end of the log.
        """
        while self._next is not _END:
            if self._next[0] >= log_end:
                physical, _, file = self._next
                self._findings.unfinished(file, f"has an entry for {physical}, beyond the end of the log")
                self._next = next(self._stream, _END)
            else:
                self._skip_dangling()
        if self._before:
            text = "there is no index" if self._first == _END[0] else f"the index begins at {self._first} of the log"
            self._findings.note(self._place, f"{text}: {self._before} messages before that cannot be found by key")
        if self._unfiled:
            self._findings.unfinished(
                self._place, f"{len(self._unfiled)} records from {self._unfiled[0]} of the log on have no entries"
            )
