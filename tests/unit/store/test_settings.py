"""Settings of a store: the defaults of MessageStoreConfig, as literals, and the smallest values that are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.store.settings import BATCH_QUEUE_UNIT, CONSUME_QUEUE_ENTRY, StoreConfig, delay_levels

DEFAULTS = {
    "store_path_commit_log": "",
    "mapped_file_size_commit_log": 1073741824,
    "mapped_file_size_consume_queue": 6000000,
    "mapper_file_size_batch_consume_queue": 13800000,
    "max_hash_slot_num": 5000000,
    "max_index_num": 20000000,
    "message_index_enable": True,
    "max_msgs_num_batch": 64,
    "max_message_size": 4194304,
    "message_delay_level": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "flush_disk_type": "ASYNC_FLUSH",
    "flush_interval_commit_log": 500,
    "flush_commit_log_least_pages": 4,
    "flush_commit_log_thorough_interval": 10000,
    "flush_consume_queue_thorough_interval": 60000,
    "check_crc_on_recover": True,
    "read_un_committed": False,
    "max_transfer_bytes_on_message_in_memory": 262144,
    "max_transfer_count_on_message_in_memory": 32,
    "max_transfer_bytes_on_message_in_disk": 65536,
    "max_transfer_count_on_message_in_disk": 8,
    "access_message_in_memory_max_ratio": 40,
    "max_filter_message_size": 16000,
    "delete_when": "04",
    "file_reserved_time": 72,
    "disk_max_used_space_ratio": 75,
    "disk_space_clean_forcibly_ratio": 85,
    "disk_space_warning_level_ratio": 90,
    "delete_file_batch_max": 10,
    "clean_file_forcibly_enable": True,
    "clean_resource_interval": 10000,
    "timer_wheel_enable": True,
    "timer_max_delay_sec": 259200,
    "timer_precision_ms": 1000,
    "timer_roll_window_slot": 172800,
    "timer_flush_interval_ms": 1000,
    "timer_congest_num_each_slot": 2147483647,
    "timer_stop_enqueue": False,
    "timer_stop_dequeue": False,
    "mapped_file_size_timer_log": 104857600,
    "accept_loss": False,
    "rebuild_bytes_before_start": 1073741824,
    "scrub_bytes_per_second": 0,
    "max_open_queue_files": 512,
}


def test_defaults() -> None:
    assert msgspec.structs.asdict(StoreConfig()) == DEFAULTS
    assert (CONSUME_QUEUE_ENTRY, BATCH_QUEUE_UNIT) == (20, 46)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("mapped_file_size_commit_log", 4096),
        ("mapped_file_size_consume_queue", 20),
        ("mapper_file_size_batch_consume_queue", 46),
        ("max_hash_slot_num", 1),
        ("max_index_num", 2),
        ("delete_file_batch_max", 1),
        ("clean_resource_interval", 1),
        ("file_reserved_time", 0),
        ("mapped_file_size_timer_log", 4096),
        ("timer_max_delay_sec", 0),
        ("timer_flush_interval_ms", 1),
        ("timer_congest_num_each_slot", 1),
    ],
)
def test_a_number_has_a_least_value(name: str, least: int) -> None:
    values: dict[str, Any] = {name: least}
    assert getattr(StoreConfig(**values), name) == least
    values[name] = least - 1
    with pytest.raises(ConfigError):
        StoreConfig(**values)


@pytest.mark.parametrize("precision", [100, 200, 500, 1000])
def test_precisions_of_timers(precision: int) -> None:
    assert StoreConfig(timer_precision_ms=precision).timer_precision_ms == precision
    for other in (precision - 1, precision + 1):
        with pytest.raises(ConfigError, match="timerPrecisionMs must be one of"):
            StoreConfig(timer_precision_ms=other)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"flush_disk_type": "NO_FLUSH"}, "flushDiskType is 'NO_FLUSH'"),
        ({"store_path_commit_log": "/a,/b"}, "keeps the commit log in one directory"),
        ({"delete_when": ""}, "deleteWhen is empty"),
        ({"delete_when": " ; "}, "deleteWhen is empty"),
        ({"delete_when": "04;24"}, "hours from 00 to 23"),
        ({"delete_when": "-1"}, "hours from 00 to 23"),
        ({"message_delay_level": "1s 2"}, "messageDelayLevel has '2'"),
        ({"message_delay_level": "1w"}, "messageDelayLevel has '1w'"),
        ({"message_delay_level": "s"}, "messageDelayLevel has 's'"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        StoreConfig(**values)
    assert StoreConfig(flush_disk_type="SYNC_FLUSH").flush_disk_type == "SYNC_FLUSH"


@pytest.mark.parametrize(("text", "hours"), [("04", {4}), ("00; 23;", {0, 23}), ("4;16;4", {4, 16})])
def test_hours_of_removal(text: str, hours: set[int]) -> None:
    assert StoreConfig(delete_when=text).delete_hours == hours


@pytest.mark.parametrize(("size", "rounded"), [(20, 20), (21, 40), (40, 40), (6_000_000, 6_000_000)])
def test_queue_files_have_whole_entries(size: int, rounded: int) -> None:
    assert StoreConfig(mapped_file_size_consume_queue=size).consume_queue_file_size == rounded


@pytest.mark.parametrize(("size", "rounded"), [(46, 46), (47, 92), (92, 92), (93, 138)])
def test_batch_queue_files_have_whole_units(size: int, rounded: int) -> None:
    assert StoreConfig(mapper_file_size_batch_consume_queue=size).batch_queue_file_size == rounded


def test_the_size_of_an_index_file() -> None:
    assert StoreConfig().index_file_size == 420_000_040
    assert StoreConfig(max_hash_slot_num=3, max_index_num=5).index_file_size == 40 + 12 + 100


def test_the_directory_of_the_commit_log() -> None:
    assert StoreConfig().commit_log_directory is None
    assert StoreConfig(store_path_commit_log="/a/b").commit_log_directory == Path("/a/b")
    assert StoreConfig(store_path_commit_log="~/b").commit_log_directory == Path.home() / "b"


def test_delay_levels_are_milliseconds() -> None:
    assert delay_levels("1s 5s 2m 3h 1d") == [1_000, 5_000, 120_000, 10_800_000, 86_400_000]
    assert delay_levels("") == []
    assert sum(delay_levels(str(DEFAULTS["message_delay_level"]))) == 17_146_000
