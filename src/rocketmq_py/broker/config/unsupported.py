"""Settings of a Java broker that select where or how safely data is stored, and that this broker does not support.

A broker that ignored such a key would write messages to another place, or store them less safely, than configured.
Therefore only the default value is accepted; any other value stops the start.
"""

from __future__ import annotations

from collections.abc import Mapping

_ROCKSDB = "this broker keeps queues, topics, groups and offsets in files, not in RocksDB"
_DLEDGER = "this broker has no Raft log (DLedger): use masters and slaves, or an Apache RocketMQ cluster"
_CONTROLLER = "this broker has no controller mode: set brokerRole and brokerId instead"
_FIND_NAMESRV = "this broker does not look up name servers: list them in namesrvAddr"

UNSUPPORTED: dict[str, tuple[str, str]] = {
    "storeType": ("default", _ROCKSDB),
    "configManagerVersion": ("v1", _ROCKSDB),
    "rocksdbCQDoubleWriteEnable": ("false", _ROCKSDB),
    "transRocksDBEnable": ("false", _ROCKSDB),
    "timerRocksDBEnable": ("false", _ROCKSDB),
    "indexRocksDBEnable": ("false", _ROCKSDB),
    "popConsumerKVServiceEnable": ("false", _ROCKSDB),
    "enableDLegerCommitLog": ("false", _DLEDGER),
    "enableControllerMode": ("false", _CONTROLLER),
    "allAckInSyncStateSet": ("false", _CONTROLLER),
    "messageStorePlugIn": ("", "this broker has no store plug-ins and no tiered storage"),
    "readOnlyCommitLogStorePaths": ("", "this broker keeps the commit log in one directory"),
    "fetchNamesrvAddrByAddressServer": ("false", _FIND_NAMESRV),
    "fetchNameSrvAddrByDnsLookup": ("false", _FIND_NAMESRV),
}
"""By key: the only accepted value, and the reason for refusing any other."""


def unsupported_settings(settings: Mapping[str, str]) -> list[str]:
    """Return an error text for each setting that requires a feature this broker does not have."""
    return [
        f"{key} is {settings[key]!r}: {why}"
        for key, (accepted, why) in UNSUPPORTED.items()
        if key in settings and settings[key].strip().lower() != accepted
    ]
