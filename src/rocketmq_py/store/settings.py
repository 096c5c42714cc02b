"""Settings of a store, named as in Apache RocketMQ (MessageStoreConfig), but in snake_case."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rocketmq_py.errors import ConfigError

ASYNC_FLUSH = "ASYNC_FLUSH"
SYNC_FLUSH = "SYNC_FLUSH"
CONSUME_QUEUE_ENTRY = 20
"""Bytes of one consume queue entry; a consume queue file has a whole number of entries."""
BATCH_QUEUE_UNIT = 46
"""Bytes of one unit of a batch consume queue."""

_PRECISIONS = (100, 200, 500, 1000)
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class StoreConfig(msgspec.Struct, kw_only=True):
    """Settings of a store, shared by its parts; the owner may change them while the store is open.

    Sizes are in bytes, intervals in milliseconds, ratios in percent, ``file_reserved_time`` in hours and
    ``timer_max_delay_sec`` in seconds. ``timer_roll_window_slot`` counts slots of ``timer_precision_ms``; a message
    with a longer delay is rolled: it passes the timer wheel more than once.

    :raises ConfigError: a value is not valid.
    """

    store_path_commit_log: str = ""
    """Directory of the commit log; empty for ``commitlog`` below the store's root."""
    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = 300_000 * CONSUME_QUEUE_ENTRY
    mapper_file_size_batch_consume_queue: int = 300_000 * BATCH_QUEUE_UNIT
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    message_index_enable: bool = True
    max_msgs_num_batch: int = 64
    max_message_size: int = 4 * 1024 * 1024
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

    flush_disk_type: str = ASYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_consume_queue_thorough_interval: int = 60_000
    check_crc_on_recover: bool = True
    read_un_committed: bool = False

    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    max_filter_message_size: int = 16_000

    delete_when: str = "04"
    file_reserved_time: int = 72
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    delete_file_batch_max: int = 10
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000

    timer_wheel_enable: bool = True
    timer_max_delay_sec: int = 3 * 24 * 3600
    timer_precision_ms: int = 1000
    timer_roll_window_slot: int = 2 * 24 * 3600
    timer_flush_interval_ms: int = 1000
    timer_congest_num_each_slot: int = 2**31 - 1
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    mapped_file_size_timer_log: int = 100 * 1024 * 1024

    accept_loss: bool = False
    """Whether to open a store whose commit log lacks files or parts of them (not a key of Java's)."""
    rebuild_bytes_before_start: int = 1 << 30
    """A start waits for the rebuild of damaged consume queues if it reads at most so many bytes of the log; a longer
    one goes on while the broker serves (not a key of Java's)."""
    scrub_bytes_per_second: int = 0
    """Rate at which log and consume queues are checked for damage, once a day at most; 0: not (not a key of Java's)."""
    max_open_queue_files: int = 512
    """Maximum number of open consume queue files (not a key of Java's)."""

    def __post_init__(self) -> None:
        self._check_log_path()
        if self.flush_disk_type not in (ASYNC_FLUSH, SYNC_FLUSH):
            raise ConfigError(f"flushDiskType is {self.flush_disk_type!r}: {ASYNC_FLUSH} or {SYNC_FLUSH} is expected")
        if self.mapped_file_size_commit_log < 4096:
            raise ConfigError(f"mappedFileSizeCommitLog is {self.mapped_file_size_commit_log}: at least 4096 is needed")
        if self.mapped_file_size_consume_queue < CONSUME_QUEUE_ENTRY:
            raise ConfigError(f"mappedFileSizeConsumeQueue is {self.mapped_file_size_consume_queue}: too small")
        if self.mapper_file_size_batch_consume_queue < BATCH_QUEUE_UNIT:
            size = self.mapper_file_size_batch_consume_queue
            raise ConfigError(f"mapperFileSizeBatchConsumeQueue is {size}: too small")
        if self.max_hash_slot_num < 1 or self.max_index_num < 2:
            raise ConfigError("maxHashSlotNum must be at least 1 and maxIndexNum at least 2")
        if self.delete_file_batch_max < 1 or self.clean_resource_interval < 1:
            raise ConfigError("deleteFileBatchMax and cleanResourceInterval must be at least 1")
        if min(self.file_reserved_time, self.scrub_bytes_per_second, self.rebuild_bytes_before_start) < 0:
            raise ConfigError("fileReservedTime, scrubBytesPerSecond and rebuildBytesBeforeStart must not be negative")
        delay_levels(self.message_delay_level)
        self._check_timers()
        if not self.delete_hours:
            raise ConfigError("deleteWhen is empty: hours are expected, 04 or 04;16 for instance")

    def _check_timers(self) -> None:
        if self.timer_precision_ms not in _PRECISIONS or self.mapped_file_size_timer_log < 4096:
            raise ConfigError(
                f"timerPrecisionMs must be one of {_PRECISIONS} and mappedFileSizeTimerLog at least 4096, not "
                f"{self.timer_precision_ms} and {self.mapped_file_size_timer_log}"
            )
        if self.timer_max_delay_sec < 0 or self.timer_flush_interval_ms < 1 or self.timer_congest_num_each_slot < 1:
            raise ConfigError(
                "timerMaxDelaySec must not be negative, timerFlushIntervalMs and timerCongestNumEachSlot at least 1"
            )

    def _check_log_path(self) -> None:
        path = self.store_path_commit_log
        if "," in path:
            raise ConfigError(f"storePathCommitLog is {path!r}: this broker keeps the commit log in one directory")

    @property
    def delete_hours(self) -> frozenset[int]:
        """Local hours in which expired files are removed.

        :raises ConfigError: an hour is not valid.
        """
        hours = [part.strip() for part in self.delete_when.split(";") if part.strip()]
        if not all(hour.isdecimal() and int(hour) < 24 for hour in hours):
            raise ConfigError(
                f"deleteWhen is {self.delete_when!r}: hours from 00 to 23, separated by ';', are expected"
            )
        return frozenset(map(int, hours))

    @property
    def commit_log_directory(self) -> Path | None:
        """Directory of the commit log; None for ``commitlog`` below the store's root."""
        return Path(self.store_path_commit_log).expanduser() if self.store_path_commit_log else None

    @property
    def consume_queue_file_size(self) -> int:
        """Bytes of a consume queue file: the configured size, rounded up to a multiple of an entry as in Java."""
        return -(-self.mapped_file_size_consume_queue // CONSUME_QUEUE_ENTRY) * CONSUME_QUEUE_ENTRY

    @property
    def batch_queue_file_size(self) -> int:
        """Bytes of a batch consume queue file: the configured size, rounded up to a multiple of a unit as in Java."""
        return -(-self.mapper_file_size_batch_consume_queue // BATCH_QUEUE_UNIT) * BATCH_QUEUE_UNIT

    @property
    def index_file_size(self) -> int:
        return 40 + 4 * self.max_hash_slot_num + 20 * self.max_index_num


def delay_levels(text: str) -> list[int]:
    """Milliseconds of each delay level, level 1 first, from a list such as ``1s 5s 1m 2h``.

    :raises ConfigError: an entry is not a number followed by s, m, h or d.
    """
    levels = []
    for entry in text.split():
        number, unit = entry[:-1], entry[-1]
        if unit not in _UNITS or not number.isdecimal():
            raise ConfigError(f"messageDelayLevel has {entry!r}: a number followed by s, m, h or d is expected")
        levels.append(int(number) * _UNITS[unit])
    return levels
