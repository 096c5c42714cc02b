"""Start and end of a proxy."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.proxy import CallNeeds
from tests.unit.proxy.cluster import A, FakeCluster, ProxyCalls


async def test_a_proxy_listens_until_it_stops(cluster: FakeCluster) -> None:
    proxy = ProxyCalls(cluster, port=0).proxy
    await proxy.start()
    assert proxy.address == f"127.0.0.1:{proxy.port}"
    assert proxy.facts.master("a") == A
    _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.close()
    for _ in range(2):
        await proxy.stop()
    assert proxy.connections == ()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", proxy.port)
    assert cluster.ends == 2


@pytest.mark.parametrize(("host", "local"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("10.0.0.3", "10.0.0.3")])
def test_programs_on_this_machine_reach_a_proxy_that_listens_everywhere(
    cluster: FakeCluster, host: str, local: str
) -> None:
    assert ProxyCalls(cluster, host=host, port=8082).proxy.address == f"{local}:8082"


async def test_a_proxy_starts_without_a_name_server(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.away.add("ns")
    proxy = ProxyCalls(cluster, port=0).proxy
    await proxy.start()
    await proxy.stop()
    assert "calls are refused until a name server answers: no name server answers" in caplog.text


async def test_users_are_asked_for_before_the_first_call(cluster: FakeCluster) -> None:
    proxy = ProxyCalls(cluster, port=0, access=CallNeeds.PERMISSION).proxy
    await proxy.start()
    await proxy.stop()
    assert RequestCode.AUTH_LIST_USER in {code for _, code, _, _ in cluster.asked}
