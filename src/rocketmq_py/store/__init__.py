"""The message store: commit log, consume queues and index in the files of Apache RocketMQ.

Imports ``wire`` and below; knows nothing of requests, clients and consumers.
"""

from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.fs.filesystem import File, FileSystem
from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.store.message_store import MessageStore
from rocketmq_py.store.settings import ASYNC_FLUSH, SYNC_FLUSH, StoreConfig, delay_levels
from rocketmq_py.store.write.batches import (
    WORTH,
    AlikeRecords,
    SameRecords,
    SameShape,
    alike_records,
    same_records,
    same_shape,
)
from rocketmq_py.store.write.records import (
    Appended,
    AppendedBatch,
    Arrival,
    Boundary,
    GetResult,
    GetStatus,
    NewAlike,
    NewBatch,
    NewRecord,
    QueryResult,
)  # fmt: skip

__all__ = [
    "ASYNC_FLUSH", "SYNC_FLUSH", "WORTH", "AlikeRecords", "Appended", "AppendedBatch", "Arrival", "Boundary",
    "ConfigFile", "File", "FileSystem", "GetResult", "GetStatus", "MessageStore", "NewAlike", "NewBatch", "NewRecord",
    "OsFileSystem", "QueryResult", "SameRecords", "SameShape", "StoreConfig", "alike_records", "delay_levels",
    "same_records", "same_shape",
]  # fmt: skip
