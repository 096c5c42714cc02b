"""Messages are found by their tags, without an index of them."""

from __future__ import annotations

import pytest

from rocketmq_py.store.read import tag_search
from rocketmq_py.wire.record import decode_records
from tests.unit.store.helpers import NOW, fill, numbers

FOREVER = 1 << 63


def search(store, tag, limit=64, begin=0, end=FOREVER - 1, topic="T"):
    found = store.query_by_tag(topic, tag, limit, begin, end)
    messages = decode_records(found.body)
    assert found.count == len(messages)
    return numbers(messages)


def test_a_tag_search_returns_the_newest_messages_in_order_of_time(stores):
    store = stores.open()
    for i in range(40):
        stores.clock.now += 1000
        fill(store, 1, start=i, queue_id=i % 3)
    fill(store, 3, start=90, topic="other")
    assert search(store, "even") == list(range(0, 40, 2))
    assert search(store, "odd", limit=5) == [31, 33, 35, 37, 39]
    assert search(store, "none") == []
    assert search(store, "even", topic="nowhere") == []
    assert search(store, "even", begin=NOW + 11_000, end=NOW + 15_000) == [10, 12, 14]


def test_a_tag_search_is_limited_by_the_settings(stores):
    store = stores.open()
    fill(store, 200, size=5)
    assert search(store, "odd", limit=1000) == list(range(199 - 2 * 63, 200, 2))


@pytest.mark.parametrize("most", [10, 30])
def test_a_search_for_a_rare_tag_is_bounded(stores, monkeypatch, most):
    monkeypatch.setattr(tag_search, "_MOST", most)
    monkeypatch.setattr(tag_search, "_STEP", 7)
    store = stores.open()
    fill(store, 100, size=5)
    assert search(store, "even") == list(range(100 - most, 100, 2))


def test_messages_of_expired_files_are_not_found(stores):
    store = stores.open()
    fill(store, 60)
    store.close()
    stores.fs.remove(stores.root / "commitlog" / f"{0:020d}")
    store = stores.open()
    first = store.queue_range("T", 0)[0]
    assert first > 0
    assert search(store, "even") == [i for i in range(first, 60) if i % 2 == 0]
