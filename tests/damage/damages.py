"""Random damages to the files of a store, one or several at once."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

KINDS = ("bit", "zeros", "garbage", "cut", "emptied", "removed")
_PAGE = 4096
_SMALL_PAGE = 256
"""Damaged part of a file that is smaller than a page."""


class Damage(NamedTuple):
    """One damage: its kind, its file below the store's root, and the damaged bytes of the file.

    :ivar ends_log: whether the log ends there: after a kill its last part is not known to have been on disk.
    """

    kind: str
    file: str
    begin: int
    end: int
    ends_log: bool = False

    @property
    def is_of_log(self) -> bool:
        return self.file.startswith("commitlog/")

    @property
    def area(self) -> str:
        """What the file is, for the table of results."""
        first, _, rest = self.file.partition("/")
        return self.file if first == "config" else first if rest else self.file

    def hits(self, physical: int, size: int) -> bool:
        """True if a record at this offset of the commit log is damaged."""
        if not self.is_of_log:
            return False
        start = self.log_start
        return (self.ends_log or physical < start + self.end) and start + self.begin < physical + size

    @property
    def log_start(self) -> int:
        """Offset of the commit log at which its file begins."""
        return int(self.file.rpartition("/")[2])

    def __str__(self) -> str:
        return f"{self.kind} {self.file} {self.begin}-{self.end}"


class Choice(NamedTuple):
    """The files that may be damaged.

    :ivar only: text that their paths contain.
    :ivar without: text that their paths do not contain; empty for none.
    """

    only: str = ""
    without: str = ""

    def allows(self, path: str) -> bool:
        return self.only in path and not (self.without and self.without in path)

    @property
    def told(self) -> str:
        """As text, for an error."""
        return f"called {self.only!r}" + (f" and not {self.without!r}" if self.without else "")


ANY = Choice()


class Damages(NamedTuple):
    """All damages of a round."""

    each: tuple[Damage, ...]

    @property
    def refuses_start(self) -> bool:
        """True if the broker may refuse to start: a file of the log is not there as a whole."""
        return any(one.is_of_log and one.kind in ("cut", "emptied", "removed") for one in self.each)

    @property
    def hits_journal(self) -> bool:
        return any(".journal" in one.file for one in self.each)

    @property
    def area(self) -> str:
        return " + ".join(sorted({one.area.partition("/")[0] for one in self.each}) if self.are_several else
                          [self.each[0].area])  # fmt: skip

    @property
    def kind(self) -> str:
        return "two at once" if self.are_several else self.each[0].kind

    @property
    def are_several(self) -> bool:
        return len(self.each) > 1

    def hits(self, physical: int, size: int) -> bool:
        """True if a record at this offset of the commit log is damaged."""
        return any(one.hits(physical, size) for one in self.each)

    def touches(self, physical: int, size: int) -> bool:
        """True if bytes at this offset of the commit log are damaged themselves."""
        return any(
            one.is_of_log and physical < one.log_start + one.end and one.log_start + one.begin < physical + size
            for one in self.each
        )

    def hits_all(self, *names: str) -> bool:
        """True if each of these files of the folder ``config`` is damaged."""
        return {f"config/{name}" for name in names} <= {one.file for one in self.each}

    def __str__(self) -> str:
        return ", ".join(map(str, self.each))


def files(root: Path) -> list[str]:
    """The files that can be damaged; the marks of running brokers are none."""
    found = (path for path in root.rglob("*") if path.is_file() and path.name not in ("lock", "abort"))
    return sorted(str(path.relative_to(root)) for path in found)


def damage_some(
    root: Path, chance: random.Random, choice: Choice = ANY, at_once: int = 1, on_disk: int = 1 << 63
) -> Damages:  # fmt: skip
    """Damage files at random, so many times; fewer if no file is left that may be damaged.

    :param on_disk: the end of the log that the checkpoint confirms.
    """
    each: list[Damage] = []
    while len(each) < at_once and (names := [name for name in files(root) if choice.allows(name)]):
        each.append(_damage(root, chance, names))
    if any(one.file == "checkpoint" for one in each) and on_disk < 1 << 63:
        on_disk = 0
    return Damages(tuple(one._replace(ends_log=one.is_of_log and one.log_start + one.end > on_disk) for one in each))


def _damage(root: Path, chance: random.Random, names: Sequence[str]) -> Damage:
    """Damage one of these files; its time of modification stays."""
    areas = sorted({Damage("", name, 0, 0).area for name in names})
    area = chance.choice(areas)
    file = chance.choice([name for name in names if Damage("", name, 0, 0).area == area])
    path, kind = root / file, chance.choice(KINDS)
    state = path.stat()
    size = state.st_size
    if kind == "removed" or not size:
        path.unlink()
        return Damage("removed", file, 0, size)
    begin = end = 0
    with path.open("r+b") as stream:
        written = _written(stream.read(min(size, 1 << 20)))
        at = chance.randrange(max(1, written))
        if kind == "emptied":
            stream.truncate(0)
            end = size
        elif kind == "cut":
            stream.truncate(at)
            begin, end = at, size
        elif kind == "bit":
            _write(stream, at, bytes([_byte(stream, at) ^ 1 << chance.randrange(8)]))
            begin, end = at, at + 1
        else:
            page = _PAGE if written > _PAGE else _SMALL_PAGE
            begin, end = at // page * page, min(size, at // page * page + page)
            _write(stream, begin, bytes(end - begin) if kind == "zeros" else chance.randbytes(end - begin))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    return Damage(kind, file, begin, end)


def _written(data: bytes) -> int:
    return len(data.rstrip(b"\0"))


def _byte(stream: object, at: int) -> int:
    stream.seek(at)  # type: ignore[attr-defined]
    return int(stream.read(1)[0])  # type: ignore[attr-defined]


def _write(stream: object, at: int, data: bytes) -> None:
    stream.seek(at)  # type: ignore[attr-defined]
    stream.write(data)  # type: ignore[attr-defined]
