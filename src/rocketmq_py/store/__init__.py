"""The message store: commit log, consume queues and index in the files of Apache RocketMQ."""

from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.fs.filesystem import File, FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.store.message_store import MessageStore
from rocketmq_py.store.queue.runs import AppendedRun, Arrival, HalfPlace, KindTarget
from rocketmq_py.store.settings import ASYNC_FLUSH, SYNC_FLUSH, StoreConfig, delay_levels
from rocketmq_py.store.workers import Workers
from rocketmq_py.store.write.batches import (
    MIN_UNIFORM,
    AdjacentRecords,
    UniformMessages,
    UniformRecords,
    adjacent_records,
    uniform_messages,
    uniform_records,
)
from rocketmq_py.store.write.records import (
    Appended,
    AppendedBatch,
    Boundary,
    GetResult,
    GetStatus,
    NewBatch,
    NewRecord,
    QueryResult,
    UniformBatch,
)  # fmt: skip

__all__ = [
    "ASYNC_FLUSH",
    "MIN_UNIFORM",
    "SYNC_FLUSH",
    "AdjacentRecords",
    "Appended",
    "AppendedBatch",
    "AppendedRun",
    "Arrival",
    "Boundary",
    "ConfigFile",
    "File",
    "FileSystem",
    "GetResult",
    "GetStatus",
    "HalfPlace",
    "KindTarget",
    "MessageStore",
    "NewBatch",
    "NewRecord",
    "OsFileSystem",
    "QueryResult",
    "StoreConfig",
    "UniformBatch",
    "UniformMessages",
    "UniformRecords",
    "Workers",
    "adjacent_records",
    "delay_levels",
    "uniform_messages",
    "uniform_records",
]  # fmt: skip
