"""Checks of what reads need, for those that must not wait for the disk."""

from __future__ import annotations

from tests.unit.store.helpers import Stores, fill


def test_reads_that_may_wait_for_the_disk_check_nothing(stores: Stores) -> None:
    store = stores.open()
    fill(store, 3)
    store.commit_pending()
    checks = store.checks
    checks.earliest_message_time(None)
    checks.earliest_store_time("T", 0, None)
    checks.log(0, 1 << 20, None)
