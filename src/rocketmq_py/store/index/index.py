"""The index: finds messages of a topic by their keys.

Keys wait in memory and are added to the index files many at once, and before any query. Index files have only hashes of
keys, so that a query can return messages with another key of the same hash; the caller compares keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.errors import IndexRebuilding
from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.fs.filesystem import FileSystem
from rocketmq_py.store.fs.layout import StoreLayout, index_name, is_index_name
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.store.index.index_file import IndexFile
from rocketmq_py.store.index.key_hash import key_hash
from rocketmq_py.store.index.key_search import KeySearch
from rocketmq_py.store.index.slot_pages import SlotPages
from rocketmq_py.store.index.waiting_keys import PackedKeys, WaitingKeys
from rocketmq_py.store.settings import StoreConfig
from rocketmq_py.wire.java_hash import string_hash

_log = logging.getLogger(__name__)

_BUILD_AT = 512
"""Number of waiting keys from which on they are added to the file, and maximum number added in one step."""
_AT_ONCE = 4096
"""Maximum number of keys added in one call; more can wait after slots were loaded from disk."""
_MOST_WAITING = 500_000
"""If more keys wait, they are added even if that waits for the disk."""


class MessageIndex:
    """The index of a store.

    :param clock: returns milliseconds since the epoch, for the names of index files.
    :param accelerator: computes hashes of keys; None for Python's own code.
    """

    def __init__(
        self, fs: FileSystem, layout: StoreLayout, config: StoreConfig, clock: Callable[[], int],
        accelerator: Accelerator | None = None,
    ) -> None:  # fmt: skip
        self.anew = partial(MessageIndex, fs, layout, config, clock, accelerator)
        """Returns another index in the same folder, without files."""
        self._fs = fs
        self.directory = layout.index
        self._config = config
        self._clock = clock
        self.is_enabled = config.message_index_enable
        self._slot_pages: SlotPages | None = None
        """Loads slots; None until recovery is done, which waits for the disk."""
        self.is_unfinished = False
        """True while the index is rebuilt: it keeps no keys, and cannot be searched."""
        self._keeps_keys = True
        """False in the first part of a rebuild, which finds the keys of new messages in the log."""
        self.is_being_saved = False
        """True while keys wait because the files are being synced: each write to a slot could wait for the disk."""
        self._dropped_to = -1
        """Physical offset of the newest message whose keys were not kept."""
        self.had_files = False
        """True if :meth:`load` found an index file, even one that it does not trust."""
        self._files: list[IndexFile] = []
        self._unsaved: list[IndexFile] = []  # full files to be saved; the newest file is always saved
        self.packed = None if accelerator is None else PackedKeys(accelerator)
        """The same as :attr:`waiting`; None without the accelerator."""
        self.waiting = WaitingKeys() if self.packed is None else self.packed
        """Keys not yet in a file."""
        self.confirmed: int | None = None
        """Keys of messages from this physical offset on keep waiting; None for no limit."""

    # -- files

    def load(self, *, trusted_until: int | None, was_saved: bool = False) -> list[Path]:
        """Open the files; return those that may be damaged and must be removed.

        :param was_saved: whether the checkpoint says that there was an index. Its oldest file has no entries only if it
            is damaged, or a rebuild has not ended: then all files are removed.
        :param trusted_until: store timestamp of the checkpoint after a crash: files with newer entries are not trusted
            (Java's rule); in the others, entries added after their last sync are removed. None trusts all files.
        """
        untrusted = []
        for name in self._fs.names(self.directory):
            path = self.directory / name
            if not is_index_name(name) or self._fs.size(path) != self._config.index_file_size:
                _log.warning("%s is not an index file of this configuration, ignored", path)
                continue
            self.had_files = True
            file = self._open(name)
            if trusted_until is not None and file.end_timestamp > trusted_until:
                file.close()
                untrusted.append(path)
                continue
            self._files.append(file)
        if was_saved and self._files and self._files[0].is_empty:
            _log.warning("the oldest file of the index has no entries: a rebuild has not ended, or it is damaged")
            self.remove_files()
            self.had_files = False
        elif trusted_until is not None:
            # Full files other than the newest were complete when they were last saved.
            torn = [file for file in self._files if file.room or file is self._files[-1]]
            for file in torn:
                file.rebuild_slots()
            self._unsaved = [file for file in torn if file is not self._files[-1]]
        return untrusted

    def _open(self, name: str) -> IndexFile:
        file = self._fs.open(self.directory / name, self._config.index_file_size)
        return IndexFile(file, self._config.max_hash_slot_num, self._config.max_index_num)

    def _current(self) -> IndexFile:
        """Return the newest file, or a new one if that is full or there is none."""
        if self._files and self._files[-1].room:
            return self._files[-1]
        now = self._clock()
        while self._fs.size(self.directory / index_name(now)) is not None:
            now += 1
        file = self._open(index_name(now))
        if self._files:
            full = self._files[-1]
            self._unsaved.append(full)
            file.begin_physical = file.end_physical = full.end_physical
            file.begin_timestamp = file.end_timestamp = full.end_timestamp
        self._files.append(file)
        if self._slot_pages is not None:
            self._slot_pages.trust(file)
        return file

    # -- adding

    def add_words(self, topic_hash: int, keys: bytes, physical: int, timestamp: int) -> None:
        """Add the keys of a message to the waiting keys.

        :param topic_hash: Java hash of ``topic#``.
        :param keys: the keys, separated by spaces.
        :param physical: offset of the message in the commit log.
        :param timestamp: its store timestamp in milliseconds.
        """
        for key in keys.split(b" "):
            if key:
                self.waiting.fields += (topic_hash, key, physical, timestamp)

    def add_properties(self, topic_hash: int, properties: dict[bytes, bytes], physical: int, timestamp: int) -> None:
        """Add the unique key and the other keys in the properties of a message to the waiting keys.

        Parameters are those of :meth:`add_words`.
        """
        uniq_key = properties.get(dispatch_fields.UNIQ_KEY)
        if uniq_key is not None:
            self.waiting.fields += (topic_hash, uniq_key, physical, timestamp)
        if dispatch_fields.KEYS in properties:
            self.add_words(topic_hash, properties[dispatch_fields.KEYS], physical, timestamp)

    def commit_pending(self) -> None:
        """Add the waiting keys to the index files if there are at least 512; see :meth:`build`."""
        if len(self.waiting) >= _BUILD_AT:
            self.build()

    def load_slots(self, executor: Executor) -> None:
        """From now on, let keys wait while the slots they change are being loaded from disk.

        :param executor: runs the loads.
        """
        self._slot_pages = SlotPages(self._fs, self._clock, executor)

    def build(self) -> bool:
        """Add waiting keys to the index files; keys of unconfirmed messages stay, see :attr:`confirmed`.

        Return True if no others wait. They wait while slots are being loaded from disk or files are being saved, and if
        there are very many.

        :raises OSError: the disk is full or fails; the keys keep waiting.
        """
        if len(self.waiting) >= _MOST_WAITING:
            return self._build(None, _AT_ONCE)
        return not self.is_being_saved and self._build(self._slot_pages, _AT_ONCE)

    def build_everything(self) -> None:
        """As :meth:`build`, but add all keys, and wait for the disk if necessary."""
        self._build(None, len(self.waiting))

    def _build(self, pages: SlotPages | None, most: int) -> bool:
        waiting = self.waiting
        if not self.is_enabled:
            waiting.drop(len(waiting))
        ready, done = self._ready(), 0
        if self.is_unfinished:
            return self._drop(ready)
        try:
            while done < min(ready, most):
                file = self._current()
                end = done + min(file.room, _BUILD_AT, ready - done)
                if pages is not None and not pages.are_ready(file, end - done, partial(waiting.hashes, done, end)):
                    return False
                waiting.put_into(file, done, end)
                done = end
        finally:
            waiting.drop(done)
        return done == ready

    def _drop(self, ready: int) -> bool:
        """Drop so many waiting keys, which a rebuild finds in the log; return False if it has passed them already."""
        if self._keeps_keys:
            return False
        if ready:
            self._dropped_to = self.waiting.physicals(ready - 1, ready)[0]
        self.waiting.drop(ready)
        return True

    def _ready(self) -> int:
        """Number of waiting keys of messages before :attr:`confirmed`."""
        return len(self.waiting) if self.confirmed is None else self.waiting.before(self.confirmed)

    @property
    def waiting_from(self) -> int | None:
        """Offset of the log before which no key waits; None if no key waits."""
        return min(self.waiting.physicals(), default=None)

    def take_hashes(self, most: int) -> list[tuple[int, int]]:
        """Remove some waiting keys, and return physical offset and hash of each.

        :param most: maximum number of keys.
        """
        count = min(most, len(self.waiting))
        found = list(zip(self.waiting.physicals(0, count), self.waiting.hashes(0, count), strict=True))
        self.waiting.drop(count)
        return found

    # -- querying

    def search(self, topic: str, key: str, limit: int, begin: int, end: int, residency: Residency | None) -> KeySearch:
        """Begin a search for messages with a key that has the hash of ``key``.

        :param limit: maximum number of messages; at most ``maxMsgsNumBatch``.
        :param begin: earliest store time; ``begin`` and ``end`` are inclusive, in milliseconds since the epoch.
        :param residency: None to wait for the disk.
        :raises NotInMemory: only with ``residency``: keys wait for slots, which must be loaded.
        :raises IndexRebuilding: the index is being rebuilt.
        """
        if self.is_unfinished:
            raise IndexRebuilding("the index is being rebuilt from the commit log: try again later")
        if self.waiting:
            if residency is not None and not self.build() and self._files:
                self._files[-1].needs_slots(residency)
                residency.check()
            self.build_everything()
        wanted = key_hash(string_hash(f"{topic}#"), key.encode())
        return KeySearch(self._files, wanted, min(limit, self._config.max_msgs_num_batch), begin, end)

    @property
    def end_timestamp(self) -> int:
        """Store timestamp of the newest entry, 0 for none."""
        return self._files[-1].end_timestamp if self._files else 0

    @property
    def end_physical(self) -> int:
        """Physical offset of the newest entry, 0 for none."""
        return self._files[-1].end_physical if self._files else 0

    # -- rebuilding

    def put_off(self) -> None:
        """Keep no keys for now: a rebuild adds those of all messages."""
        self.is_unfinished, self._keeps_keys = True, False

    def can_resume(self, position: int) -> bool:
        """True if the keys of all messages from offset ``position`` of the log on are waiting or yet to come."""
        return self._dropped_to < position

    def resume(self, position: int) -> None:
        """From now on, keep the keys of messages from offset ``position`` of the log on."""
        self._keeps_keys = True
        self.waiting.drop(self.waiting.before(position))

    def adopt(self, whole: MessageIndex) -> None:
        """Take over the files of another index: the rebuild has ended."""
        self._files, whole._files = whole._files, []
        self.is_unfinished = False

    @property
    def files(self) -> Sequence[IndexFile]:
        """The files, oldest first."""
        return self._files

    def with_headers(self) -> list[tuple[IndexFile, bytes]]:
        """Return all files, oldest first, each with its encoded header that counts all entries."""
        return [(file, file.header()) for file in self._files]

    def remove_files(self) -> None:
        """Close and remove all files.

        :raises OSError: the disk fails.
        """
        files, self._files = self._files, []
        self._unsaved = []
        for file in files:
            file.close()
        for file in reversed(files):  # the oldest one last: it tells that the others are incomplete
            self._fs.remove(file.path)

    # -- saving and removing

    def take_dirty(self) -> list[tuple[IndexFile, bytes]]:
        """Return the files to save, each with its encoded header that counts all entries, the newest file last.

        :raises OSError: the disk is full or fails.
        """
        self.build_everything()
        dirty, self._unsaved = self._unsaved, []
        return [(file, file.header()) for file in (*dirty, *self._files[-1:])]

    def detach_before(self, physical: int) -> list[Callable[[], None]]:
        """Drop the files whose entries all point to records before offset ``physical``; the newest file stays.

        Returns functions that close and remove one file each; any thread may call them.
        """
        gone: list[IndexFile] = []
        while len(self._files) > 1 and self._files[0].end_physical < physical:
            gone.append(self._files.pop(0))
            gone[-1].is_detached = True
        self._unsaved = [file for file in self._unsaved if file not in gone]
        return [partial(self._remove, file) for file in gone]

    def _remove(self, file: IndexFile) -> None:
        file.close()
        self._fs.remove(file.path)
        _log.info("removed index file %s", file.path)

    def close(self) -> None:
        if self._slot_pages is not None:
            self._slot_pages.close()
        for file in self._files:
            file.close()
        self._files.clear()
