"""Where a store looks for its commit log."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.errors import StoreCorrupt
from tests.unit.store.helpers import SMALL, Stores, fill, numbers, read_queue


def test_an_empty_log_directory_is_refused_if_the_default_one_has_a_log(stores: Stores) -> None:
    store = stores.open()
    fill(store, 3)
    store.close()
    elsewhere = msgspec.structs.replace(SMALL, store_path_commit_log="/store/elsewhere")
    with pytest.raises(StoreCorrupt, match="storePathCommitLog names /store/elsewhere, which is empty, but"):
        stores.open(elsewhere)
    store = stores.open()
    assert numbers(read_queue(store)) == [0, 1, 2]
    store.close()
    default = msgspec.structs.replace(SMALL, store_path_commit_log=str(stores.root / "commitlog"))
    assert numbers(read_queue(stores.open(default))) == [0, 1, 2]


def test_a_new_store_may_have_its_log_elsewhere(stores: Stores) -> None:
    elsewhere = msgspec.structs.replace(SMALL, store_path_commit_log="/store/elsewhere")
    for expected in ([0, 1, 2], [0, 1, 2, 3]):
        store = stores.open(elsewhere)
        fill(store, 1 if len(expected) > 3 else 3, expected[-1] if len(expected) > 3 else 0)
        assert numbers(read_queue(store)) == expected
        store.close()
    assert stores.fs is not None
    assert stores.fs.names(stores.root / "commitlog") == []
