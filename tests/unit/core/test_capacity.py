"""What a cluster needs for a load."""

from __future__ import annotations

import pytest

from rocketmq_py.core import capacity
from rocketmq_py.core.capacity import Load, plan


def test_a_small_load_fits_on_one_broker() -> None:
    found = plan(Load(messages=100, clients=30))
    assert (found.masters, found.brokers) == (1, 1)
    assert found.sends_each == found.deliveries_each == 100
    assert found.heartbeats_each == found.route_polls == 1
    assert found.route_polls_per_name_server == 0.5


def test_what_a_load_is_by_default() -> None:
    whole = Load(
        messages=9, message_bytes=1024, groups=1, days=3.0, topics=100, clients=100, topics_per_client=1, copies=1,
        name_servers=2,
    )  # fmt: skip
    assert Load(messages=9) == whole


def test_nothing_needs_one_broker_with_an_empty_disk() -> None:
    found = plan(Load(messages=0, groups=0))
    assert (found.masters, found.disk_gib, found.core_share_each) == (1, 0, 0)


@pytest.mark.parametrize(("messages", "masters"), [(capacity.LOAD * 1e6 / capacity.SEND_MICROS, 1), (38_500, 2)])
def test_brokers_use_half_a_core_at_most(messages: float, masters: int) -> None:
    found = plan(Load(messages=messages, groups=0))
    assert found.masters == masters
    assert found.core_share_each <= capacity.LOAD + 1e-9


def test_each_group_costs_its_deliveries() -> None:
    few, many = (plan(Load(messages=10_000, groups=groups)) for groups in (1, 100))
    assert few.masters == 1
    assert many.masters == 9
    assert many.deliveries_each == pytest.approx(10_000 * 100 / 9)


def test_disk_is_for_all_days_and_copies() -> None:
    found = plan(Load(messages=1_000, message_bytes=893, days=1, copies=2))
    a_day = 1_000 * 1024 * 86_400
    assert found.brokers == 2
    assert found.disk_gib_each == pytest.approx(a_day / 0.75 / (1 << 30))
    assert found.disk_gib == 2 * found.disk_gib_each
    assert found.written_mb_each == pytest.approx(1.024)
    assert found.page_cache_gib_per_hour == pytest.approx(1_000 * 1024 * 3600 / (1 << 30))
    assert found.descriptors_each == 100 + 512 + 83 + 100


def test_memory_grows_with_topics_groups_and_clients() -> None:
    empty = plan(Load(messages=1, topics=1, groups=0, clients=1)).memory_mib_each
    assert empty == pytest.approx(20, abs=0.1)
    assert plan(Load(messages=1, topics=20_001, groups=0, clients=1)).memory_mib_each - empty == pytest.approx(
        136.7, 0.01
    )
    assert plan(Load(messages=1, topics=1, groups=0, clients=1_025)).memory_mib_each - empty == pytest.approx(8.5)


def test_every_broker_registers_with_every_name_server() -> None:
    found = plan(Load(messages=115_000, groups=1, copies=2, name_servers=3))
    assert found.masters == 4
    assert found.registrations_per_name_server == pytest.approx(8 / 30)
