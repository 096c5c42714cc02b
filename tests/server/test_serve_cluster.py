"""The embedded cluster and the proxy, as their users use them."""

import asyncio
import socket
from contextlib import closing

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.testing import Cluster, TcpProxy
from rocketmq_py.wire import fastjson
from tests.server.rawpeer import RawPeer


def broker_names(cluster, topic):
    """The brokers that have queues of a topic, by the name server's word."""
    with RawPeer(cluster.namesrv) as peer:
        answer = peer.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, version=479)
    return (
        sorted(queue["brokerName"] for queue in fastjson.loads(answer.body)["queueDatas"]) if answer.code == 0 else []
    )


def max_offset(address, topic):
    with RawPeer(address) as peer:
        return peer.ask(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})


# -- cluster


def test_the_fixtures_give_a_running_cluster_and_a_fresh_topic(rocketmq, rocketmq_topic):
    assert rocketmq_topic.startswith("test_the_fixtures_give_")
    assert broker_names(rocketmq, rocketmq_topic) == ["broker-a"]


def test_several_brokers_share_topics_and_have_separate_stores(tmp_path):
    with Cluster(2, tmp_path) as cluster:
        assert cluster.create_topic("T", 3) == "T"
        assert broker_names(cluster, "T") == ["broker-a", "broker-b"]
        assert cluster.directory == tmp_path
        assert len(set(cluster.addresses)) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker-a", "broker-b"]


def test_the_temporary_directory_is_removed_with_the_cluster():
    with Cluster() as cluster:
        directory = cluster.directory
        assert directory.is_dir()
    assert not directory.exists()


def test_a_restarted_broker_has_its_port_and_topics():
    with Cluster() as cluster:
        (address,) = cluster.addresses
        cluster.create_topic("T")
        cluster.stop_broker()
        cluster.stop_broker()
        assert cluster.addresses == ()
        assert broker_names(cluster, "T") == []
        cluster.start_broker()
        cluster.start_broker()
        assert cluster.addresses == (address,)
        assert broker_names(cluster, "T") == ["broker-a"]


def test_brokers_find_a_restarted_name_server(tmp_path):
    with Cluster() as cluster:
        address = cluster.namesrv
        cluster.create_topic("T")
        cluster.stop_namesrv()
        assert max_offset(cluster.addresses[0], "T").code == 0
        cluster.start_namesrv()
        assert cluster.namesrv == address


def test_settings_reach_the_brokers():
    with Cluster(auto_create_topic_enable=False, flush_disk_type="SYNC_FLUSH") as cluster:
        (broker,) = cluster.brokers
        assert not broker.config.auto_create_topic_enable
        assert broker.store_config.flush_disk_type == "SYNC_FLUSH"


def test_a_failed_cluster_start_leaves_nothing_behind():
    cluster = Cluster(no_such_setting=1)
    with pytest.raises(ConfigError, match="no_such_setting"):
        cluster.start()
    assert cluster.addresses == ()


def test_a_cluster_can_be_used_within_asyncio():
    async def scenario():
        async with Cluster() as cluster:
            return await asyncio.to_thread(broker_names, cluster, "TBW102")

    assert asyncio.run(scenario()) == ["broker-a"]


# -- proxy


@pytest.fixture
def proxy(rocketmq):
    with TcpProxy(rocketmq.addresses[0]) as proxy:
        yield proxy


def ask(peer):
    return peer.ask(Code.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": "0"}).code


def test_a_proxy_forwards_both_ways(proxy):
    with RawPeer(proxy.address) as one, RawPeer(proxy.address) as two:
        assert (ask(one), ask(two), ask(one)) == (0, 0, 0)
        assert proxy.connections == 2


def test_killed_connections_end_and_new_ones_are_accepted(proxy):
    with RawPeer(proxy.address) as peer:
        ask(peer)
        proxy.kill()
        peer.wait_closed()
    assert proxy.connections == 0
    with RawPeer(proxy.address) as peer:
        assert ask(peer) == 0


def test_a_refusing_proxy_resumes_on_its_port(proxy):
    address = proxy.address
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        RawPeer(address)
    proxy.start()
    assert proxy.address == address
    with RawPeer(address) as peer:
        assert ask(peer) == 0


def test_a_silent_proxy_buffers_until_it_resumes(proxy):
    with RawPeer(proxy.address) as peer:
        ask(peer)
        proxy.silence()
        answers = []
        with pytest.raises(TimeoutError):
            peer.within(0.05, lambda: answers.append(ask(peer)))
        assert answers == []
        proxy.resume()
        assert peer.receive().code == 0


def test_a_delaying_proxy_keeps_the_order(proxy):
    proxy.delay = 0.01
    with RawPeer(proxy.address) as peer:
        assert [ask(peer) for _ in range(3)] == [0, 0, 0]


def test_a_proxy_without_its_target_closes_what_it_accepted():
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"
        with TcpProxy(nowhere) as proxy, RawPeer(proxy.address) as peer:
            peer.wait_closed()
