"""Names of the files and directories of a store, the same as Apache RocketMQ's: either can open the other's store."""

from __future__ import annotations

import datetime
from pathlib import Path

from rocketmq_py.core.paths import below

NAME_DIGITS = 20


class StoreLayout:
    """Paths below the root of a store."""

    def __init__(self, root: Path, commit_log: Path | None = None) -> None:
        self.root = root
        self.commit_log = commit_log or root / "commitlog"
        self.consume_queue = root / "consumequeue"
        self.batch_consume_queue = root / "batchconsumequeue"
        self.index = root / "index"
        self.config = root / "config"
        self.checkpoint = root / "checkpoint"
        self.queue_ends = root / "queueends"
        self.timer_wheel = root / "timerwheel"
        self.timer_log = root / "timerlog"
        self.timer_check = self.config / "timercheck"
        self.abort = root / "abort"
        self.lock = root / "lock"

    def topic_directories(self, topic: str) -> tuple[Path, Path]:
        """Directories of the consume queues and of the batch consume queues of a topic.

        :raises NameIllegal: the topic is not a valid directory name.
        """
        return below(self.consume_queue, topic), below(self.batch_consume_queue, topic)

    def queue_directory(self, topic: str, queue_id: int) -> Path:
        """Directory of a consume queue.

        :raises NameIllegal: the topic is not a valid directory name.
        """
        return below(self.consume_queue, topic) / str(queue_id)

    def batch_queue_directory(self, topic: str, queue_id: int) -> Path:
        """Directory of a batch consume queue.

        :raises NameIllegal: the topic is not a valid directory name.
        """
        return below(self.batch_consume_queue, topic) / str(queue_id)


def segment_name(start: int) -> str:
    """Name of the file that begins at byte ``start`` of its log."""
    return f"{start:0{NAME_DIGITS}d}"


def segment_start(name: str) -> int | None:
    """Start offset in the name of a log file; None for any other name."""
    return int(name) if len(name) == NAME_DIGITS and name.isascii() and name.isdecimal() else None


def index_name(now_ms: int) -> str:
    """Name of an index file created at ``now_ms``: local time as yyyyMMddHHmmssSSS."""
    local = datetime.datetime.fromtimestamp(now_ms // 1000).astimezone()
    return f"{local:%Y%m%d%H%M%S}{now_ms % 1000:03d}"


def is_index_name(name: str) -> bool:
    """True if ``name`` has the format of an index file's name."""
    return len(name) == 17 and name.isascii() and name.isdecimal()
