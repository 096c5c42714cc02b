"""A search for a key in all index files. It does not wait for the disk: it is run again after each load."""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.store.index.chain import Chain
from rocketmq_py.store.index.index_file import IndexFile


class KeySearch:
    """A search in the files that there are when it begins; a file that expires meanwhile is left out.

    :param files: oldest first.
    :param key_hash: the hash of topic and key.
    :param limit: maximum number of messages.
    :param begin: earliest store time; ``begin`` and ``end`` are inclusive, in milliseconds since the epoch.
    """

    def __init__(self, files: Sequence[IndexFile], key_hash: int, limit: int, begin: int, end: int) -> None:
        self._files = list(files)
        self._key_hash = key_hash
        self._limit = limit
        self._begin = begin
        self._end = end
        self._found: list[int] = []
        self._chain: Chain | None = None

    def run(self, residency: Residency | None) -> list[int]:
        """Return physical offsets of messages, the newest first.

        :param residency: None to wait for the disk.
        :raises NotInMemory: only with ``residency``. Run the search again after the load: it continues.
        """
        while self._files:
            file = self._files[-1]
            if not file.is_detached and file.is_within(self._begin, self._end):
                self._found += self._select(file, residency)
            self._files.pop()
            self._chain = None
            if file.begin_timestamp < self._begin or len(self._found) >= self._limit:
                self._files.clear()
        return self._found

    def _select(self, file: IndexFile, residency: Residency | None) -> list[int]:
        left = self._limit - len(self._found)
        if residency is None:
            return file.select(self._key_hash, left, self._begin, self._end)
        if self._chain is None:
            file.needs_slot(self._key_hash, residency)
            residency.check()
            self._chain = file.chain(self._key_hash, left, self._begin, self._end)
            file.follow_resident(self._chain)
        if not self._chain.is_done:
            raise NotInMemory([self._chain])
        return self._chain.found
