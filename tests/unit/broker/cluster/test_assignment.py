"""Server-side assignment of queues, and request modes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.cluster.assignment import QueueAssignments
from rocketmq_py.broker.metadata.request_modes import RequestModes
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectError
from rocketmq_py.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from rocketmq_py.protocol.bodies.pop import MessageRequestMode, MessageRequestModes, QueryAssignmentRequest
from rocketmq_py.protocol.bodies.route import QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.pop.pop_client import make_topic
from tests.unit.broker.workers import AtOnce


class NameServer(RpcClient):
    """Stands where requests to name servers would go out."""

    def __init__(self, *queues: QueueData) -> None:
        super().__init__()
        self.queues = list(queues)
        self.asked = 0
        self.is_down = False

    async def invoke(self, address: str, command: Command, timeout: float) -> Reply:
        self.asked += 1
        if self.is_down:
            raise ConnectError(f"cannot connect to {address}")
        code = 0 if self.queues else 17
        return Reply(code, command.opaque, body=TopicRouteData(queue_datas=self.queues).encode())


def join(running: InProcess, *clients: str) -> None:
    for client in clients:
        subscription = SubscriptionData.parse("t", "*", 1)
        data = HeartbeatData(
            client_id=client, consumer_data_set=[ConsumerData(group_name="g", subscription_data_set=[subscription])]
        )
        assert running.connect().ask(Code.HEART_BEAT, None, data.encode()).code == 0


def queue(name: str, number: int, perm: int = 6) -> QueueData:
    return QueueData(broker_name=name, read_queue_nums=number, write_queue_nums=number, perm=perm)


def assigned(
    running: InProcess, client: str, *, rpc_client: Any = None, strategy: str | None = "AVG", model: str = "CLUSTERING",
    assignments: QueueAssignments | None = None,
) -> list[str] | None:  # fmt: skip
    asked = assignments or make(running, rpc_client)
    request = QueryAssignmentRequest(
        topic="t", consumer_group="g", client_id=client, strategy_name=strategy, message_model=model
    )
    answer = asyncio.run(asked.query(request)).message_queue_assignments
    if answer is None:
        return None
    return [f"{one.mode} {one.message_queue.broker_name} {one.message_queue.queue_id}" for one in answer]


def make(running: InProcess, rpc_client: Any = None) -> QueueAssignments:
    services = running.services
    return QueueAssignments(
        running.config, services.topics, services.clients, services.modes, rpc_client, running.clock
    )


def test_queues_are_shared_out(running: InProcess) -> None:
    make_topic(running, 3)
    join(running, "a", "b")
    assert assigned(running, "a") == ["PULL broker-a 0", "PULL broker-a 1"]
    assert assigned(running, "b", strategy="AVG_BY_CIRCLE") == ["PULL broker-a 1"]
    assert assigned(running, "stranger") == []
    assert assigned(running, "a", model="BROADCASTING") == [f"PULL broker-a {queue}" for queue in range(3)]


def test_clients_without_an_assignment(running: InProcess) -> None:
    assert assigned(running, "a", model="BROADCASTING") is None, "no such topic"
    make_topic(running)
    assert assigned(running, "a") is None, "the group is not connected"
    join(running, "a")
    assert assigned(running, "a", strategy="OTHER") is None
    assert assigned(running, "a", strategy=None) is None


def test_a_group_that_pops_shares_all_queues(running: InProcess) -> None:
    make_topic(running, 3)
    join(running, "a", "b", "c")
    running.services.modes.set(MessageRequestMode(topic="t", consumer_group="g", mode="POP", pop_share_queue_num=8))
    assert assigned(running, "a") == ["POP broker-a -1"]
    running.services.modes.set(MessageRequestMode(topic="t", consumer_group="g", mode="POP", pop_share_queue_num=1))
    assert assigned(running, "a") == ["POP broker-a 0", "POP broker-a 1"]


def test_a_broker_that_leaves_sharing_to_clients(tmp_path: Path) -> None:
    with broker(tmp_path / "store", server_load_balancer_enable=False) as running:
        make_topic(running, 2)
        assert assigned(running, "a") == ["PULL broker-a 0", "PULL broker-a 1"]


def test_the_queues_of_all_brokers(tmp_path: Path) -> None:
    with broker(tmp_path / "store", namesrv_addr="127.0.0.1:1") as running:
        make_topic(running, 1)
        join(running, "a")
        told = NameServer(queue("broker-b", 1), queue("broker-a", 1), queue("broker-c", 1, perm=2))
        assignments = make(running, told)
        both = ["PULL broker-a 0", "PULL broker-b 0"]
        assert assigned(running, "a", assignments=assignments) == both
        told.is_down = True
        assert assigned(running, "a", assignments=assignments) == both
        assert told.asked == 1, "an answer holds for a while"
        running.now += 30_000
        assert assigned(running, "a", assignments=assignments) == both
        assert told.asked == 2, "what was known holds as long as nobody answers"
        make_topic(running, 2)
        told.is_down, told.queues = False, [queue("broker-a", 2)]
        assert assigned(running, "a", assignments=assignments) == ["PULL broker-a 0", "PULL broker-a 1"]
        told.queues = []
        running.now += 30_000
        assert assigned(running, "a", assignments=assignments) == ["PULL broker-a 0", "PULL broker-a 1"]


def test_no_name_server_answers(tmp_path: Path) -> None:
    with broker(tmp_path / "store", namesrv_addr="127.0.0.1:1") as running:
        join(running, "a")
        told = NameServer()
        told.is_down = True
        assert assigned(running, "a", rpc_client=told) is None
        make_topic(running)
        assert assigned(running, "a", rpc_client=told) == ["PULL broker-a 0"]


# -- modes


def set_mode(client: Client, topic: str = "t", group: str = "g", mode: str = "POP") -> tuple[int, str | None]:
    body = MessageRequestMode(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=2).encode()
    answer = client.ask(Code.SET_MESSAGE_REQUEST_MODE, None, body)
    return answer.code, answer.remark


def test_modes_are_kept(running: InProcess, client: Client) -> None:
    make_topic(running)
    assert set_mode(client) == (0, None)
    listed = client.ask(Code.GET_ALL_MESSAGE_REQUEST_MODE)
    mode = MessageRequestMode(topic="t", consumer_group="g", mode="POP", pop_share_queue_num=2)
    assert MessageRequestModes.decode(listed.body).message_request_mode_map == {"t": {"g": mode}}
    file = ConfigFile(running.config.store_root / "config" / "messageRequestMode.json")
    again = RequestModes(file, running.config, running.services.topics, running.services.groups, AtOnce())
    again.load()
    assert again.get("t", "g") == mode


@pytest.mark.parametrize(
    ("change", "code", "remark"),
    [
        ({"topic": "%RETRY%g"}, 16, "retry topic is not allowed to set mode"),
        ({"topic": "no"}, 17, "topic[no] not exist"),
        ({"group": "a b"}, 26, "subscription group does not exist"),
        ({"mode": "PUSH"}, 29, "mode 'PUSH' is unknown; use PULL or POP"),
    ],
)
def test_modes_that_are_refused(
    running: InProcess, client: Client, change: dict[str, str], code: int, remark: str
) -> None:
    make_topic(running)
    assert set_mode(client, **change) == (code, remark)


def test_the_default_mode_of_a_group(tmp_path: Path) -> None:
    with broker(tmp_path / "store", default_message_request_mode="POP", default_pop_share_queue_num=4) as running:
        mode = running.services.modes.get("t", "g")
        assert (mode.mode, mode.pop_share_queue_num) == ("POP", 4)
        retry = running.services.modes.get("%RETRY%g", "g")
        assert (retry.mode, retry.pop_share_queue_num) == ("PULL", 0)
