"""How many round trips ``group lag`` takes, which counts when brokers are far away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketmq_py.aio import Admin
from rocketmq_py.cli.group import reset
from rocketmq_py.cli.group.lag import first_snapshot
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.errors import NoRouteError
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo
from rocketmq_py.protocol.codes import RequestCode, Version
from rocketmq_py.wire.command import Command
from tests.unit.client.rounds import count_rounds
from tests.unit.client.scripted import route_answer

BROKERS = ["a", "b", "c", "d"]
RESET: list[str] = []
"""The queues that were reset."""
ROUTE = dict.fromkeys(BROKERS, 16)


def answer(address: str, request: Command) -> Command:
    """Four brokers; topic ``t`` has 16 queues on each; group ``g`` has consumed them, ``new`` nothing."""
    match request.code:
        case RequestCode.GET_BROKER_CLUSTER_INFO:
            table = {name: BrokerData(cluster="c", broker_name=name, broker_addrs={0: f"{name}:1"}) for name in BROKERS}
            info = ClusterInfo(broker_addr_table=table, cluster_addr_table={"c": BROKERS})
            return Command(0, body=info.encode())
        case RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
            groups = {name: SubscriptionGroupConfig(group_name=name) for name in ("g", "new")}
            return Command(0, body=SubscriptionGroupTable(subscription_group_table=groups).encode())
        case RequestCode.GET_CONSUME_STATS:
            return Command(0, body=_stats(address.partition(":")[0], request.ext["consumerGroup"]))
        case RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return route_answer(ROUTE if request.ext["topic"] == "t" else None)
        case RequestCode.INVOKE_BROKER_TO_RESET_OFFSET:
            RESET.append(f"{address} {request.ext['queueId']} {request.ext['offset']}")
            return Command(0, body=b'{"offsetTable":{}}')
        case RequestCode.QUERY_CONSUMER_OFFSET | RequestCode.GET_MIN_OFFSET | RequestCode.GET_MAX_OFFSET:
            offset = "10" if request.code == RequestCode.GET_MAX_OFFSET else "3"
            return Command(0, version=Version.V5_0_0, ext={"offset": offset})
    raise AssertionError(request)


def _stats(broker: str, group: str) -> bytes:
    state = '{"brokerOffset":10,"consumerOffset":3,"lastTimestamp":0,"pullOffset":3}'
    queues = range(16) if group == "g" else ()
    entries = [f'{{"brokerName":"{broker}","queueId":{queue},"topic":"t"}}:{state}' for queue in queues]
    return f'{{"consumeTps":0.0,"offsetTable":{{{",".join(entries)}}}}}'.encode()


@pytest.mark.parametrize("topic", [None, "t"])
def test_the_lag_of_64_queues_on_4_brokers_takes_2_round_trips(topic: str | None) -> None:
    rounds, snapshot = count_rounds(lambda admin: first_snapshot(admin, "g", topic), answer)
    assert rounds == 2
    queues: Any = snapshot.queues  # type: ignore[attr-defined]
    assert len(queues) == 64
    assert sum(state.lag for state in queues.values()) == 64 * 7
    assert json.dumps(sorted({queue.broker_name for queue in queues})) == '["a", "b", "c", "d"]'


def test_lags_of_64_queues_take_3_round_trips() -> None:
    rounds, lag = count_rounds(lambda admin: admin.lag("g", "t"), answer)
    assert (rounds, lag) == (3, 64 * 7)


def test_64_queues_are_reset_in_3_round_trips() -> None:
    rows = [{"broker": broker, "queue": queue, "to": queue} for broker in BROKERS for queue in range(16)]
    RESET.clear()
    rounds, _ = count_rounds(lambda admin: reset._apply(admin, "g", "t", rows), answer)
    assert rounds == 3
    assert sorted(RESET) == sorted(f"{broker}:1 {queue} {queue}" for broker in BROKERS for queue in range(16))


def test_what_does_not_exist_is_said() -> None:
    for group, topic, error, text in (
        ("none", None, CommandFailure, "there is no consumer group none"),
        ("new", None, CommandFailure, "group new has committed nothing yet"),
        ("g", "none", NoRouteError, "none"),
    ):

        async def work(admin: Admin, group: str = group, topic: str | None = topic) -> object:
            return await first_snapshot(admin, group, topic)

        with pytest.raises(error, match=text):
            count_rounds(work, answer)
