"""The table of all consume queues of a store, on disk and in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path

from rocketmq_py.core.paths import component_fault, quoted_name
from rocketmq_py.errors import MessageIllegal, StoreCorrupt
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.fs.filesystem import FileSystem, InnerFolder
from rocketmq_py.store.fs.layout import StoreLayout, segment_start
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.log.scan import Found
from rocketmq_py.store.queue.batch_consume_queue import BatchConsumeQueue
from rocketmq_py.store.queue.confirm_offset import Entries
from rocketmq_py.store.queue.consume_queue import HEAD_BYTES, ConsumeQueue
from rocketmq_py.store.queue.lent_queues import LentQueues
from rocketmq_py.store.queue.new_files import NewFiles
from rocketmq_py.store.queue.queue_ends import QueueEnd, QueueEnds
from rocketmq_py.store.queue.runs import Arrival
from rocketmq_py.store.queue.unfinished_queue import UnfinishedBatchQueue, UnfinishedQueue
from rocketmq_py.store.settings import StoreConfig, delay_levels

_log = logging.getLogger(__name__)

_CHECKED_BYTES = 16 * 1024 * 1024
"""Bytes of queue files whose checksums are verified at a start, some 15 ms; the others are checked by their sizes."""
_UNFINISHED = "its rebuild has not ended"
_SPILLED_AT_ONCE = 1_000
"""Number of files that are written at once."""
_SPILL_AT = 16 * 1024
"""Size of a tail, in bytes, from which on it is written to its file."""


class QueueTable:
    """The consume queues by ``(topic, queue_id)``.

    :param is_batched: returns whether new queues of a topic are batch consume queues.
    :param stored_at: returns the store timestamp of the record at an offset of the log, in milliseconds.
    :param thread: an executor with one thread, which makes the first files of new queues.
    :param lent: lends queues to the accelerator; None: they stay here.
    """

    def __init__(
        self, fs: FileSystem, layout: StoreLayout, config: StoreConfig, is_batched: Callable[[str], bool],
        stored_at: Callable[[int], int], thread: Executor, lent: LentQueues | None = None,
    ) -> None:  # fmt: skip
        self._fs = fs
        self._layout = layout
        self._is_batched = is_batched
        self._stored_at = stored_at
        self._files = OpenFiles(fs, config.consume_queue_file_size, config.max_open_queue_files)
        self._batch_files = OpenFiles(fs, config.batch_queue_file_size, config.max_open_queue_files)
        self._budget = _CHECKED_BYTES
        self._delays = delay_levels(config.message_delay_level)
        self.lent = lent
        self._long: list[ConsumeQueue] = []
        """Queues that have got many entries from the accelerator."""
        self.by_key: dict[tuple[str, int], ConsumeQueue] = {} if lent is None else lent.table()
        self.new_files = NewFiles(fs, thread, self._has_entries_of, self.bring)
        self._leaving: dict[tuple[str, int], ConsumeQueue] = {}
        """Removed queues that still have files."""
        self.before_removal: Callable[[], None] = lambda: None
        """Called before files of removed queues are removed."""
        self._ids: dict[str, set[int]] = {}
        """Ids of the queues of each topic."""
        self.damaged: dict[tuple[str, int], str] = {}
        """Queues whose files :meth:`load` or :meth:`compare` has removed because they must be rebuilt, and why."""
        self.is_short = False
        """True if :meth:`load` has found a queue with fewer entries than it had at least."""

    def create(self, topic: str, queue_id: int, *, batched: bool = False) -> ConsumeQueue:
        """Add a new, empty queue; its directory is created with its first file.

        :param batched: forces a batch consume queue; otherwise the topic decides.
        :raises MessageIllegal: the topic is not a valid directory name.
        """
        fault = component_fault(topic)
        if fault is not None:
            raise MessageIllegal(f"topic {quoted_name(topic)} cannot have a consume queue: {fault}")
        self._remove_leaving((topic, queue_id))
        queue = self._make(topic, queue_id, batched=batched or self._is_batched(topic))
        self._add(queue)
        self.new_files.add(queue.entry_queue)
        return queue

    def _add(self, queue: ConsumeQueue) -> None:
        self.by_key[queue.topic, queue.queue_id] = queue
        self._ids.setdefault(queue.topic, set()).add(queue.queue_id)

    def ids_of(self, topic: str, wanted: Iterable[int]) -> set[int]:
        """Of some ids those that queues of a topic have."""
        ids = self._ids.get(topic)
        return ids.intersection(wanted) if ids else set()

    def _has_entries_of(self, queue: ConsumeQueue) -> bool:
        found = dict.get(self.by_key, (queue.topic, queue.queue_id))  # in a thread: it must not be taken back
        return found is not None and found.entry_queue is queue

    def _make(self, topic: str, queue_id: int, *, batched: bool) -> ConsumeQueue:
        if batched:
            return BatchConsumeQueue(
                topic, queue_id, self._layout.batch_consume_queue, self._batch_files, self._stored_at
            )
        return ConsumeQueue(topic, queue_id, self._layout.consume_queue, self._files)

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        return self.by_key.get((topic, queue_id)) or self.create(topic, queue_id)

    def load(
        self, physical_start: int, physical_end: int | None = None, ends: QueueEnds | None = None, *,
        ends_lost: bool = False, at_least: QueueEnds | None = None, is_topic: Callable[[str], bool] = lambda _: True,
    ) -> int:  # fmt: skip
        """Open every queue on disk.

        Returns the offset in the log at which the newest message of all queues ends, -1 if there is none.

        :param physical_start: where the log begins; the minimum offsets move to the messages from there on.
        :param physical_end: truncate entries of messages beyond this offset of the log; None trusts all entries.
        :param ends: entries that the queues must have; queues without them are emptied and listed in :attr:`damaged`.
        :param ends_lost: whether the ends are lost; then a file of another size than the others is damaged.
        :param at_least: entries that the queues had before another program used the store, if one did; a queue with
            fewer sets :attr:`is_short`, and nothing is done about it.
        :param is_topic: returns whether a topic exists; the queues of others may have been removed.
        :raises StoreCorrupt: a file has another size than configured.
        """
        newest = -1
        expected = ends.by_key() if ends is not None else {}
        before = at_least.by_key() if at_least is not None else {}
        # Queue by queue, because only few files can be open at once.
        for folder, batched in self._on_disk():
            key = folder.outer, int(folder.name)
            queue = self._make(*key, batched=batched)
            self._add(queue)
            try:
                reason = self._load_queue(queue, folder, ends, expected.get(key), physical_start)
            except StoreCorrupt as e:
                if not (ends_lost or before) or not self._has_usual_files(queue):
                    raise
                reason = str(e)
            if reason is not None:
                self.damaged[key] = reason
                self.replace(queue)
                continue
            if (least := before.get(key)) is not None and least.batched == batched:
                is_short = least.is_unfinished or queue.entry_queue.tail_start < least.end
                self.is_short = self.is_short or is_short
            if physical_end is not None:
                queue.load_below(physical_end)
            queue.raise_minimum(physical_start)
            newest = max(newest, queue.last_physical_end())
            queue.loaded()
        if self.by_key:
            self.add_missing(expected)
        missing = before.keys() - self.by_key.keys()
        self.is_short = self.is_short or any(is_topic(topic) for topic, _ in missing)
        return newest

    def _load_queue(
        self, queue: ConsumeQueue, folder: InnerFolder, ends: QueueEnds | None, end: QueueEnd | None,
        physical_start: int,
    ) -> str | None:  # fmt: skip
        """Load a queue; return a description of the damage of its files, None if there is none."""
        try:
            queue.load(folder, end.end if end is not None else 0)
        except StoreCorrupt as e:
            recorded = ends is not None and (ends.batch_file_size if queue.is_batched else ends.file_size)
            if not recorded or recorded != queue.file_size:
                raise
            return str(e)
        if end is not None and end.is_unfinished:
            return _UNFINISHED
        files = queue.entry_queue
        if ends is None or end is None or end.batched != queue.is_batched:
            return files.damage(None, 0, {}, 0)
        # Files removed by the clean-up since the ends were saved are not missing.
        first = end.first if physical_start <= ends.log_begin else None
        budget, before = self._budget, files.tail_start
        self._budget = max(0, budget - min(before, end.end) * files.width)
        return files.damage(first, end.end, end.checksums, budget)

    def _has_usual_files(self, queue: ConsumeQueue) -> bool:
        """True if any queue of this kind has a file of the configured size."""
        folders = (folder for folder, batched in self._on_disk() if batched == queue.is_batched)
        return any(queue.file_size in (folder.sizes or {}).values() for folder in folders)

    def newest_end(self) -> int:
        """Offset in the log at which the newest message of all queues ends, -1 if there is none."""
        return max((queue.last_physical_end() for queue in self.by_key.values()), default=-1)

    def compare(self, records: Iterable[Found]) -> None:
        """Compare all queues with records of the log; those without the entry of a record are listed as damaged.

        A queue that is not on disk is added: it cannot be told from that of a deleted topic.
        """
        for found in records:
            key = found.topic, found.queue_id
            if key in self.damaged or not dispatch_fields.has_entry(found.sys_flag):
                continue
            queue = self.by_key.get(key)
            if queue is not None and queue.entry(found.queue_offset) == self._entry_of(found):
                continue
            if queue is not None:
                self.damaged[key] = f"it lacks the message at {found.physical_offset} of the commit log"
                self.replace(queue)
            elif component_fault(found.topic) is None:
                self.create(*key, batched=dispatch_fields.is_inner_batch(found.sys_flag))
                self.damaged[key] = "its files are missing"

    def _entry_of(self, found: Found) -> tuple[int, int, int]:
        """Entry that the queue of a record must have."""
        properties = dispatch_fields.parse(found.properties)
        code = dispatch_fields.stored_tags_code(found.topic, properties, found.store_timestamp, self._delays)
        return found.physical_offset, found.size, code

    def add_missing(self, expected: Mapping[tuple[str, int], QueueEnd]) -> None:
        """Add expected queues that are not on disk, empty, and list them in :attr:`damaged` to be rebuilt."""
        for key, end in expected.items():
            if key not in self.by_key and component_fault(end.topic) is None:
                self.create(end.topic, end.queue_id, batched=end.batched)
                self.damaged[key] = _UNFINISHED if end.is_unfinished else "its files are missing"

    def replace(self, queue: ConsumeQueue) -> ConsumeQueue:
        """Remove the files of a queue, replace it in the table by an empty one, and return that."""
        queue.remove_files()
        _, batch = self._layout.topic_directories(queue.topic)
        plain, _ = self._layout.topic_directories(queue.topic)
        self._remove_rest((batch if queue.is_batched else plain) / str(queue.queue_id))
        empty = self._make(queue.topic, queue.queue_id, batched=queue.is_batched)
        self._add(empty)
        return empty

    def renew(self, queue: ConsumeQueue) -> ConsumeQueue:
        """Replace a queue of an open store by an empty one, as if its topic were removed and created again."""
        key = queue.topic, queue.queue_id
        self._leaving[key] = self.by_key.pop(key)
        return self.create(*key, batched=queue.is_batched)

    def put_off(self, key: tuple[str, int], end: QueueEnd) -> UnfinishedQueue:
        """Replace a damaged queue by one that continues at the end that it had, and gets its entries later."""
        whole = self._make(*key, batched=end.batched)
        if isinstance(whole, BatchConsumeQueue):
            unfinished: UnfinishedQueue = UnfinishedBatchQueue(whole, end.next_offset)
        else:
            unfinished = UnfinishedQueue(whole, end.first, end.next_offset)
        self._add(unfinished)
        return unfinished

    def is_current(self, queue: ConsumeQueue) -> bool:
        """True unless the topic of a queue was deleted."""
        return self.by_key.get((queue.topic, queue.queue_id)) is queue

    def finish(self, unfinished: UnfinishedQueue, *, keeps_end: bool) -> ConsumeQueue:
        """Replace a queue by the one that has got its entries, all of which are written to its files first.

        :param keeps_end: whether the queue continues at the end that it had, even if the log has lost messages before.
        :raises OSError: they cannot be written; nothing is replaced.
        """
        whole = unfinished.whole
        if keeps_end and whole.next_offset < unfinished.max_offset:
            whole.skip_to(unfinished.max_offset)
        whole.spill()
        if keeps_end:
            whole.next_offset = max(whole.next_offset, unfinished.next_offset)
        self._add(whole)
        return whole

    def ends(self, log_begin: int, log_end: int = -1) -> tuple[Iterable[ConsumeQueue], int, int, int, int]:
        """Return the arguments of :meth:`QueueEndsFile.snapshot` for this table."""
        return self.by_key.values(), log_begin, self._files.file_size, self._batch_files.file_size, log_end

    def _on_disk(self) -> Iterator[tuple[InnerFolder, bool]]:
        """Folder and kind (batch or not) of every queue on disk; its name is a number."""
        for root, batched in ((self._layout.consume_queue, False), (self._layout.batch_consume_queue, True)):
            yield from ((folder, batched) for folder in self._below(root))

    def _below(self, root: Path) -> Iterator[InnerFolder]:
        refused = set()
        for folder in self._fs.inner_folders(root, HEAD_BYTES):
            topic, name = folder.outer, folder.name
            fault = component_fault(topic)
            if fault is not None:
                if topic not in refused:
                    refused.add(topic)
                    _log.warning(
                        "folder %s of %s cannot belong to a topic, ignored: %s", quoted_name(topic), root, fault
                    )
            elif name.isascii() and name.isdecimal():
                yield folder
            else:
                _log.warning("%s is not a consume queue, ignored", root / topic / name)

    def commit_pending(self, touched: Iterable[ConsumeQueue]) -> None:
        """Make pending entries of these queues readable and write long tails to their files.

        :raises OSError: the disk is full or fails; all entries are readable nevertheless.
        """
        long, self._long = self._long, []
        for queue in touched:
            queue.commit_pending()
            if len(queue.tail) >= _SPILL_AT:
                long.append(queue)
        # In a second loop, so that all queues are readable even if the disk fails.
        for queue in long:
            queue.spill()

    def publish(self, entries: Iterable[Entries]) -> None:
        """As :meth:`commit_pending`, for entries that waited for their flush; those of removed queues are dropped.

        :raises OSError: the disk is full or fails; all entries are readable nevertheless.
        """
        long = []
        for queue, flat, next_offset in entries:
            if self.by_key.get((queue.topic, queue.queue_id)) is queue:
                queue.publish(flat, next_offset)
                long.append(queue)
        for queue in long:
            if len(queue.tail) >= _SPILL_AT:
                queue.spill()

    def spill(self, queues: Sequence[ConsumeQueue] | None = None) -> None:
        """Write the tails of queues to their files, many files at once.

        :param queues: None: all queues.
        :raises OSError: the disk is full or fails; entries not written stay in memory.
        """
        wanted = self.with_tail() if queues is None else queues
        self.bring(wanted)
        left = [queue.entry_queue for queue in wanted]
        while left := [queue for queue in left if queue.tail]:
            for begin in range(0, len(left), _SPILLED_AT_ONCE):
                self._spill_first_parts(left[begin : begin + _SPILLED_AT_ONCE])

    def _spill_first_parts(self, queues: Sequence[ConsumeQueue]) -> None:
        parts = [queue.first_part() for queue in queues]
        done, error = self._fs.write_parts(parts)
        for queue, part in zip(queues[:done], parts, strict=False):
            queue.part_written(part)
        if error is not None:
            raise error

    def with_tail(self) -> list[ConsumeQueue]:
        """Queues with entries that are not yet in their files; of those that are lent, all."""
        return [queue for queue in self.by_key.values() if queue.tail or queue.is_lent]

    def bring(self, queues: Iterable[ConsumeQueue]) -> None:
        """Bring queues up to date that may be lent, without ending that."""
        if self.lent is not None:
            self.lent.bring(queues)

    def commit_lent(self, timestamp: int, *, tells: bool) -> list[Arrival]:
        """Make entries readable that the accelerator has; the next :meth:`commit_pending` writes long tails.

        :param timestamp: store timestamp of the newest message, in milliseconds.
        :param tells: whether arrivals are told even if nobody waits, because others of this turn are.
        :returns: what those who wait for messages must be told.
        """
        if self.lent is None or not self.lent.is_ahead:
            return []
        long, arrivals = self.lent.commit(timestamp, tells=tells)
        self._long += long
        return arrivals

    def truncate(self, physical_end: int) -> None:
        """Remove the entries of messages that end after offset ``physical_end`` of the log."""
        for queue in self.by_key.values():
            queue.truncate(physical_end)

    def keep_ends(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Let queues continue at these offsets; those that are already there or beyond stay as they are."""
        for key, end in ends.items():
            queue = self.get_or_create(*key)
            if queue.next_offset < end:
                queue.skip_to(end)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Queues of a topic, sorted by id."""
        return [self.by_key[topic, queue_id] for queue_id in sorted(self._ids.get(topic, ()))]

    def remove_topic(self, topic: str) -> Generator[None, None, None]:
        """Remove the queues of a topic, and their files step by step; the records stay in the log until they expire.

        Only files of queues in this table are removed. A queue that is created again before loses its old files then;
        :meth:`finish_removals` removes what no step has removed.

        :returns: removes files when it is advanced; the queues are removed at once.
        """
        keys = [(topic, queue_id) for queue_id in self._ids.pop(topic, ())]
        for key in keys:
            self._leaving[key] = self.by_key.pop(key)
        return self._removal(topic, keys)

    def _removal(self, topic: str, keys: list[tuple[str, int]]) -> Generator[None, None, None]:
        for key in keys:
            self._remove_leaving(key)
            yield
        if keys:
            with self.new_files.lock:  # no folder of a new queue is being made
                for folder in self._layout.topic_directories(topic):
                    self._fs.remove_empty(folder)

    def _remove_leaving(self, key: tuple[str, int]) -> None:
        """Remove the files of a removed queue, if it still has them."""
        queue = self._leaving.get(key)
        if queue is None:
            return
        self.before_removal()
        with self.new_files.lock:  # none of its files is being made, and none will be
            queue.remove_files()
            for folder in self._layout.topic_directories(queue.topic):
                self._remove_rest(folder / str(queue.queue_id))
        del self._leaving[key]

    def finish_removals(self) -> None:
        """Remove all files of removed queues.

        :raises OSError: the disk fails; the other files stay.
        """
        for topic in dict.fromkeys(topic for topic, _ in self._leaving):
            for _ in self._removal(topic, [key for key in self._leaving if key[0] == topic]):
                pass

    def _remove_rest(self, directory: Path) -> None:
        """Remove a queue's folder and the segment files left in it, such as those of a former batch consume queue."""
        for name in self._fs.names(directory):
            if segment_start(name) is not None:
                self._fs.remove(directory / name)
            else:
                _log.warning("%s is not a consume queue file and stays", directory / name)
        self._fs.remove_empty(directory)

    def clear(self) -> None:
        """Remove every queue and its files."""
        for topic in list(self._ids):
            self.remove_topic(topic)
        self.finish_removals()

    def take_dirty(self) -> list[str]:
        """Return the files written since the last call and clear their marks."""
        return self._files.take_dirty() + self._batch_files.take_dirty()

    def close(self) -> None:
        self.new_files.close()
        self._files.close()
        self._batch_files.close()
