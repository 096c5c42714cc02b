"""Bodies in the two dialects: strict JSON, and bare integer keys as fastjson writes them."""

import json

from rocketmq_py.namesrv.answers import encode_cluster_info, encode_members, encode_route
from rocketmq_py.wire import fastjson


def test_a_strict_route_is_json(site):
    site.register()
    tree = json.loads(encode_route(site.registry.route("T"), strict=True))
    assert tree["brokerDatas"] == [
        {
            "brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "broker-a", "cluster": "C",
            "enableActingMaster": False,
        }
    ]  # fmt: skip
    assert tree["filterServerTable"] == {}
    assert tree["queueDatas"] == [
        {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
    ]


def test_an_old_client_gets_bare_broker_ids(site):
    site.register(broker_id=10)
    site.register(broker_id=2)
    site.register()
    text = encode_route(site.registry.route("T"), strict=False)
    assert b'"brokerAddrs":{0:"10.0.0.1:10911",2:"10.0.0.3:10911",10:"10.0.0.11:10911"}' in text
    assert fastjson.loads(text) == fastjson.loads(encode_route(site.registry.route("T"), strict=True))


def test_cluster_info_as_java_writes_it(site):
    site.register()
    assert encode_cluster_info(site.registry.cluster_info()) == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"C",'
        b'"enableActingMaster":false}},"clusterAddrTable":{"C":["broker-a"]}}'
    )


def test_members_as_java_writes_them(site):
    site.register()
    assert encode_members(site.registry.members("C", "broker-a")) == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"C"}}'
    )
