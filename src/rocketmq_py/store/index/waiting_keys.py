"""Keys that wait in memory until many are added to an index file at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct
from typing import Any

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.store.index.index_file import IndexFile
from rocketmq_py.store.index.key_hash import key_hashes

_ITEMS, _PHYSICAL, _TIMESTAMP = 4, 2, 3
"""Number of items of a key in a list, and positions of its physical offset and its store timestamp."""
_PACKED = Struct("<Iqq")
"""Hash, physical offset and store timestamp of a packed key."""


class WaitingKeys:
    """Keys in the order of the log. Its length is their number."""

    def __init__(self) -> None:
        self.fields: list[Any] = []
        """The newest keys, four items each: hash of ``topic#``, key, physical offset and store timestamp (ms).

        The writer adds keys here directly, in a flat list: this is the hot path.
        """

    def __len__(self) -> int:
        return len(self.fields) // _ITEMS

    def before(self, position: int) -> int:
        """Return how many keys are of messages before an offset of the log."""
        return bisect_left(self.physicals(), position)

    def physicals(self, begin: int = 0, end: int | None = None) -> Sequence[int]:
        """Return the physical offsets of the keys from number ``begin`` to ``end``, which is left out; None for all."""
        end = len(self) if end is None else end
        return self.fields[begin * _ITEMS + _PHYSICAL : end * _ITEMS : _ITEMS]

    def hashes(self, begin: int, end: int) -> list[int]:
        """Return the index hashes of the keys from number ``begin`` to ``end``, which is left out."""
        fields = self.fields[begin * _ITEMS : end * _ITEMS]
        return key_hashes(fields[::_ITEMS], fields[1::_ITEMS])

    def put_into(self, file: IndexFile, begin: int, end: int) -> None:
        """Add these keys to a file that has room for them; errors as of :meth:`IndexFile.put`."""
        timestamps = self.fields[begin * _ITEMS + _TIMESTAMP : end * _ITEMS : _ITEMS]
        file.put(self.hashes(begin, end), self.physicals(begin, end), timestamps)

    def drop(self, count: int) -> None:
        """Remove the oldest keys."""
        del self.fields[: count * _ITEMS]


class PackedKeys(WaitingKeys):
    """The same with the accelerator: the hashes of all keys but those in :attr:`fields` are known."""

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__()
        self._pack, self._put = accelerator.pack_keys, accelerator.put_keys
        self._packed = bytearray()

    def add(self, packed: bytes) -> None:
        """Add keys that are packed already, see :meth:`.Accelerator.pack_keys`."""
        self._pack_fields()
        self._packed += packed

    def _pack_fields(self) -> None:
        if self.fields:
            self._packed += self._pack(self.fields)
            self.fields.clear()

    def __len__(self) -> int:
        return len(self._packed) // _PACKED.size + super().__len__()

    def before(self, position: int) -> int:
        self._pack_fields()
        return bisect_left(range(len(self)), position, key=lambda number: self._unpack(number)[1])

    def physicals(self, begin: int = 0, end: int | None = None) -> Sequence[int]:
        end = len(self) if end is None else end
        return [physical for _, physical, _ in _PACKED.iter_unpack(self._part(begin, end))]

    def hashes(self, begin: int, end: int) -> list[int]:
        return [value for value, _, _ in _PACKED.iter_unpack(self._part(begin, end))]

    def put_into(self, file: IndexFile, begin: int, end: int) -> None:
        keys = self._part(begin, end)
        file.put_packed(self._put, end - begin, keys, self._unpack(begin)[1:], self._unpack(end - 1)[1:])

    def _part(self, begin: int, end: int) -> bytes:
        self._pack_fields()
        with memoryview(self._packed) as packed:
            return bytes(packed[begin * _PACKED.size : end * _PACKED.size])

    def _unpack(self, number: int) -> tuple[int, int, int]:
        found: tuple[int, int, int] = _PACKED.unpack_from(self._packed, number * _PACKED.size)
        return found

    def drop(self, count: int) -> None:
        self._pack_fields()
        del self._packed[: count * _PACKED.size]
