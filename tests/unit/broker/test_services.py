"""The parts of a broker together: they use one file system, and tell each other what happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker import services as services_module
from rocketmq_py.broker.pop.services import _saved_ms
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import KvTable
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.store import NewRecord
from rocketmq_py.wire.fastjson import dumps, loads
from tests.unit.broker import requests
from tests.unit.broker.harness import START_MS, WITHOUT_TIMERS, Client, InProcess, broker
from tests.unit.broker.pop.pop_client import make_topic, put, take
from tests.unit.broker.requests import pull, send
from tests.unit.store.memoryfs import MemoryFileSystem

WAITS = {"sys_flag": 2 | 4}


# -- files


def use_everything(running: InProcess) -> None:
    """Whatever writes a file."""
    client = running.connect()
    make_topic(running)
    running.services.groups.put([SubscriptionGroupConfig(group_name="g")])
    put(client, b"one", b"two")
    assert take(client, order=True, max_msg_nums=1)
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"delayed")
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"TIMER_DELIVER_MS": str(running.now + 5_000)}), b"timed")
    client.ask(Code.PULL_MESSAGE, pull(sys_flag=1 | 4, commit_offset=1))
    for _ in range(10):
        running.turn(1_000)
    running.services.clean_store()


def test_a_broker_uses_its_file_system_and_no_other(tmp_path: Path) -> None:
    fs, root = MemoryFileSystem(), tmp_path / "store"
    with broker(root, fs=fs) as running:
        use_everything(running)
        answer = running.connect().ask(Code.GET_BROKER_RUNTIME_INFO)
        table = KvTable.decode(answer.body).table
        ratio = -(-int(fs.ratio * 1000) * 100 // 1000) / 100
        assert table["commitLogDiskRatio"] == table["consumeQueueDiskRatio"] == str(ratio)
        assert table["commitLogDirCapacity"] == f"Total : 1000 B, Free : {1000 - int(fs.ratio * 1000)} B."
    assert list(tmp_path.iterdir()) == []
    names = {"topics.json", "subscriptionGroup.json", "consumerOffset.json", "consumerOrderInfo.json",
             "delayOffset.json", "timermetrics"}  # fmt: skip
    assert names <= set(fs.names(root / "config"))


def test_an_orderly_pop_is_still_locked_after_a_restart_in_memory(tmp_path: Path) -> None:
    fs, root = MemoryFileSystem(), tmp_path / "store"
    with broker(root, fs=fs, store=WITHOUT_TIMERS) as running:
        make_topic(running)
        running.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        put(running.connect(), b"one", b"two")
        assert take(running.connect(), order=True, max_msg_nums=1)
    with broker(root, fs=fs, store=WITHOUT_TIMERS, now=START_MS + 1_000) as running:
        assert take(running.connect(), order=True, max_msg_nums=1) == []
    with broker(root, fs=fs, store=WITHOUT_TIMERS, now=START_MS + 61_000) as running:
        assert [one.body for one in take(running.connect(), order=True, max_msg_nums=1)] == [b"one"]


def test_what_a_javas_timer_has_delivered_is_read_from_the_file_system(tmp_path: Path) -> None:
    """Eight bytes of ``timercheck``; a message that was due later is moved."""
    fs, root = MemoryFileSystem(), tmp_path / "store"
    properties = {"TAGS": "ack", "UNIQ_KEY": "k", "REAL_TOPIC": "rmq_sys_REVIVE_LOG_DefaultCluster", "REAL_QID": "2"}
    body = b'{"ao":0,"bn":"broker-a","c":"g","pt":1,"q":0,"so":0,"t":"t"}'
    with broker(root, fs=fs) as running:
        for due in (START_MS - 1, START_MS):
            text = "".join(f"{k}\x01{v}\x02" for k, v in {**properties, "TIMER_OUT_MS": str(due)}.items())
            running.services.store.append(NewRecord("rmq_sys_wheel_timer", 0, body, text.encode(), uniq_key="k"))
    fs.write(root / "config" / "timercheck", (START_MS.to_bytes(8, "big") + b"\xff" * 8).ljust(4096, b"\0"))
    with broker(root, fs=fs) as running:
        assert running.services.store.queue_range("rmq_sys_REVIVE_LOG_DefaultCluster", 2) == (0, 1)


def test_the_time_of_a_file_that_is_not_there_is_zero() -> None:
    fs = MemoryFileSystem()
    path = Path("/store/config/consumerOffset.json")
    assert _saved_ms(fs, path) == 0


# -- what happens in one part is told to the others


def test_a_lane_is_full_when_as_many_sends_wait_as_may(running: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    running.config.send_thread_pool_queue_capacity = 2
    for waiting, expected in ((0, ()), (1, ()), (2, ("send",)), (3, ("send",))):
        monkeypatch.setattr(type(running.services.waiting_sends), "__len__", lambda _, count=waiting: count)
        assert running.services.full_lanes() == expected


def test_a_new_message_answers_a_pull_and_is_counted(running: InProcess, client: Client) -> None:
    put(client, b"one")
    assert client.call(Code.PULL_MESSAGE, pull(offset=1, **WAITS)) is None
    put(running.connect(), b"two")
    running.turn()
    [answer] = client.heard
    assert (answer.code, answer.ext["nextBeginOffset"]) == (0, "2")
    assert running.services.stats.put.count == 2


def test_a_pull_whose_arrival_was_missed_is_answered_by_the_sweep(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(client, b"one")
    client.call(Code.PULL_MESSAGE, pull(offset=1, **WAITS))
    monkeypatch.setattr(running.services.pull_request_hold, "arrived", lambda _: None)
    put(running.connect(), b"two")
    running.turn()
    assert client.heard == []
    running.services.sweep()
    running.turn()
    assert [answer.code for answer in client.heard] == [0]


def test_a_pull_that_has_waited_long_enough_is_answered(running: InProcess, client: Client) -> None:
    put(client, b"one")
    client.call(Code.PULL_MESSAGE, pull(offset=1, **WAITS))
    running.turn(14_999)
    assert client.heard == []
    running.turn(1)
    assert [answer.code for answer in client.heard] == [19]


def test_a_connection_that_is_lost_takes_its_requests_with_it(running: InProcess, client: Client) -> None:
    put(client, b"one")
    client.call(Code.PULL_MESSAGE, pull(offset=1, **WAITS))
    take(client)
    asked: Any = {"queue_id": 0, "poll_time": 10_000}
    header = requests.pop(**asked, born_time=running.now, exp="*")
    assert client.call(Code.POP_MESSAGE, header) is None
    client.call(Code.HEART_BEAT, body=requests.heartbeat(t="*"))
    services = running.services
    assert (len(services.pull_request_hold), "g" in services.clients.consumers.groups) == (1, True)
    client.leave()
    running.run_callbacks()
    assert (len(services.pull_request_hold), "g" in services.clients.consumers.groups) == (0, False)
    put(running.connect(), b"two")
    running.turn(20_000)
    assert client.heard == []


def test_a_changed_permission_announces_all_topics_other_settings_none(running: InProcess) -> None:
    services = running.services
    told: list[int] = []
    services.registration.topics_changed = lambda topics: told.append(len(list(topics)))  # type: ignore[method-assign]
    before = services.topics.version
    services.settings.update("pullThreadPoolQueueCapacity=7")
    assert (told, services.topics.version) == ([], before)
    services.settings.update("brokerPermission=4")
    assert told == [len(services.topics.table)]
    assert services.topics.version.counter > before.counter


def test_a_changed_size_of_messages_is_in_force_at_once(running: InProcess, client: Client) -> None:
    assert client.ask(Code.SEND_MESSAGE_V2, send(), bytes(3_000)).code == 0
    running.services.settings.update("maxMessageSize=2999")
    assert client.ask(Code.SEND_MESSAGE_V2, send(), bytes(3_000)).code == 13
    assert client.ask(Code.SEND_MESSAGE_V2, send(), bytes(2_999)).code == 0


def test_a_topic_that_is_deleted_is_not_sent_to(running: InProcess, client: Client) -> None:
    """What sends know of a topic is forgotten when topics change."""
    running.config.auto_create_topic_enable = False
    make_topic(running)
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"one").code == 0
    running.services.topics.delete("t")
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"two").code == 17
    make_topic(running)
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"three").code == 0


# -- a slave does less


def test_a_slave_neither_checks_transactions_nor_delivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, settings in enumerate(({}, {"broker_role": "SLAVE", "broker_id": 1})):
        done: list[str] = []
        with broker(tmp_path / str(number), **settings) as running:
            s = running.services

            def note(owner: object, method: str, name: str, done: list[str] = done) -> None:
                monkeypatch.setattr(owner, method, lambda *_, **more: done.append(f"{name}{more or ''}"))

            note(s.store, "tick", "store")
            note(s.transactions, "tick", "transactions")
            note(s.transaction_check, "tick", "checks")
            note(s.delay, "deliver", "delays")
            note(s.mapping_clean_up, "start_if_due", "mappings")
            note(s.pop, "tick", "pops")
            s.tick_store()
            s.tick_delays()
            s.clean_mappings()
            s.tick_clients()
            monkeypatch.undo()
        if number:
            assert done == ["store", "pops{'revives': False}"]
        else:
            assert done == ["store", "transactions", "checks", "delays", "mappings", "pops{'revives': True}"]


async def test_only_a_master_whose_slaves_may_act_takes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read from disk is read again once the slave has told how far it came."""
    acting = {"enable_slave_acting_master": True}
    slave = {"broker_role": "SLAVE", "broker_id": 1}
    cases: list[tuple[dict[str, Any], bool, list[str]]] = [
        ({}, True, []), (acting | slave, True, []), (acting, False, ["asked"]),
        (acting, True, ["asked", "transactions", "pops"]),
    ]  # fmt: skip
    for number, (settings, told, expected) in enumerate(cases):
        done: list[str] = []
        with broker(tmp_path / str(number), **settings) as running:

            async def take_back(*_: object, done: list[str] = done, told: bool = told) -> bool:
                done.append("asked")
                return told

            s = running.services
            monkeypatch.setattr(services_module, "take_back", take_back)
            monkeypatch.setattr(s.transactions, "load", lambda done=done: done.append("transactions"))
            monkeypatch.setattr(s.pop.revive_log, "reload", lambda done=done: done.append("pops"))
            await s.take_back()
            monkeypatch.undo()
        assert done == expected


def test_a_failing_table_closes_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFileSystem()

    def fail(_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(services_module.ConsumerFilters, "load", fail)
    with pytest.raises(ValueError, match="no"):
        InProcess(tmp_path, fs=fs, store=WITHOUT_TIMERS)
    assert fs.locked == set()
    monkeypatch.undo()
    with broker(tmp_path, fs=fs, store=WITHOUT_TIMERS):
        pass


def test_a_close_saves_every_table(tmp_path: Path) -> None:
    fs = MemoryFileSystem()
    with broker(tmp_path, fs=fs, store=WITHOUT_TIMERS) as running:
        services = running.services
        services.offsets.commit("g", "t", 0, 7, "here")
        make_topic(running)
        services.groups.put([SubscriptionGroupConfig(group_name="g")])
    assert fs.open_files == 0
    with broker(tmp_path, fs=fs, store=WITHOUT_TIMERS) as running:
        assert running.services.offsets.query("g", "t", 0) == 7
        assert running.services.topics.get("t") is not None
        assert running.services.groups.get("g") is not None


@pytest.mark.parametrize("kept", ["main", "backup", "none"])
def test_a_topic_with_messages_that_its_file_has_lost_is_made_again(tmp_path: Path, kept: str) -> None:
    with broker(tmp_path, store=WITHOUT_TIMERS) as running:
        running.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=3, write_queue_nums=3)])
        put(running.connect(), b"a", queue_id=2)
    config = tmp_path / "config"
    written = loads((config / "topics.json").read_bytes())
    assert written["topicConfigTable"].pop("t")["writeQueueNums"] == 3
    for path in config.glob("*topics.json*"):
        path.unlink()
    if kept != "none":
        (config / ("topics.json" if kept == "main" else "topics.json.bak")).write_bytes(dumps(written))
    with broker(tmp_path, store=WITHOUT_TIMERS) as running:
        found = running.services.topics.get("t")
        assert found is not None
        assert (found.read_queue_nums, found.write_queue_nums, found.perm) == (3, 3, 6)


def test_a_slave_gets_lost_topics_from_its_master(tmp_path: Path) -> None:
    with broker(tmp_path, store=WITHOUT_TIMERS) as running:
        make_topic(running)
        put(running.connect(), b"a")
    config = tmp_path / "config"
    written = loads((config / "topics.json").read_bytes())
    del written["topicConfigTable"]["t"]
    for path in config.glob("*topics.json*"):
        path.unlink()
    (config / "topics.json").write_bytes(dumps(written))
    with broker(tmp_path, store=WITHOUT_TIMERS, broker_role="SLAVE", broker_id=1) as running:
        assert running.services.topics.get("t") is None


@pytest.mark.parametrize(("ip", "address"), [("10.0.0.5", "10.0.0.5:10911"), ("::1", "[::1]:10911")])
def test_the_address_of_stored_messages(tmp_path: Path, ip: str, address: str) -> None:
    with broker(tmp_path, broker_ip1=ip) as running:
        assert running.services.address == address
        sent = running.connect().ask(Code.SEND_MESSAGE_V2, send(), b"body")
        host = {"10.0.0.5": "0A000005", "::1": "0" * 31 + "1"}[ip]
        assert sent.ext["msgId"].startswith(f"{host}{10911:08X}")


def test_a_broker_that_stops_writes_every_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = InProcess(tmp_path, store=WITHOUT_TIMERS, fs=MemoryFileSystem())
    services, written, closed = running.services, list[str](), list[str]()
    tables = ("offsets", "filters", "pop", "delay", "topics", "groups")
    for name in tables:
        monkeypatch.setattr(getattr(services, name), "persist", lambda name=name: written.append(name))
    for name in ("transactions", "transaction_check", "timers", "saver", "cold_pulls", "scrubber"):
        part = getattr(services, name)

        def close(name: str = name, close: Callable[[], object] = part.close) -> None:
            closed.append(name)
            close()

        monkeypatch.setattr(part, "close", close)
    services.close()
    assert sorted(written) == sorted(tables)
    assert list(dict.fromkeys(closed)) == [
        "transactions", "transaction_check", "timers", "saver", "cold_pulls", "scrubber",
    ]  # fmt: skip
