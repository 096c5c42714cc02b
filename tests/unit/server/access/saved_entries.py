"""What a table of users and permissions has saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rocketmq_py.server.access.table import ACLS, USERS, Entry, EntryKey


class SavedEntries:
    """Takes the changes of a table; :attr:`content` is what its file would have."""

    def __init__(self) -> None:
        self.times = 0
        self.entries: dict[EntryKey, Any] = {}

    def save(self, changes: Mapping[EntryKey, Entry | None]) -> None:
        self.times += 1
        for key, entry in changes.items():
            if entry is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = msgspec.to_builtins(entry())

    @property
    def content(self) -> dict[str, list[Any]]:
        return {member: [self.entries[key] for key in sorted(self.entries) if key[0] == member]
                for member in (USERS, ACLS)}  # fmt: skip
