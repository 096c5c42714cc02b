"""Bits of MessageSysFlag, PullSysFlag and PermName, as literals from Apache RocketMQ."""

from __future__ import annotations

from rocketmq_py.protocol import sys_flag


def test_bits() -> None:
    assert {name: value for name, value in vars(sys_flag).items() if name.isupper()} == {
        "COMPRESSED": 1, "MULTI_TAGS": 2, "TRANSACTION_NOT": 0, "TRANSACTION_PREPARED": 4, "TRANSACTION_COMMIT": 8,
        "TRANSACTION_ROLLBACK": 12, "TRANSACTION_MASK": 12, "BORN_HOST_V6": 16, "STORE_HOST_V6": 32, "HOSTS_V6": 48,
        "NEED_UNWRAP": 64, "INNER_BATCH": 128, "PULL_COMMIT_OFFSET": 1, "PULL_SUSPEND": 2, "PULL_SUBSCRIPTION": 4,
        "PULL_CLASS_FILTER": 8, "PULL_LITE": 16, "PERM_PRIORITY": 8, "PERM_READ": 4, "PERM_WRITE": 2,
        "PERM_INHERIT": 1, "PERM_RW": 6,
    }  # fmt: skip
