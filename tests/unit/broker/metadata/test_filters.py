"""SQL filters: permission, results, long polling, and the stored expressions of groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.metadata.filters import ConsumerFilters, bloom_data
from rocketmq_py.core.sql92 import SqlFilter, compile_sql
from rocketmq_py.protocol.bodies.client import CheckClientConfig, ConsumerData, HeartbeatData, SubscriptionData
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.group import UnregisterClient
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.fastjson import dumps_pretty
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import heartbeat, pop, pull, send

DAY = 86_400_000
WAIT = 2


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    with broker(tmp_path / "store", enable_property_filter=True) as opened:
        yield opened


def put(client: Client, *values: Any, topic: str = "t", **more: str) -> None:
    for value in values:
        properties = {"a": str(value), **more}
        assert client.ask(Code.SEND_MESSAGE_V2, send(topic, properties=properties), str(value).encode()).code == 0


def subscription(
    expression: str = "a > 5", version: int = 1, kind: str = "SQL92", topic: str = "t"
) -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)


def beat(client: Client, *subscriptions: SubscriptionData, group: str = "g") -> None:
    data = ConsumerData(group_name=group, subscription_data_set=list(subscriptions))
    body = HeartbeatData(client_id="me", consumer_data_set=[data]).encode()
    assert client.ask(Code.HEART_BEAT, body=body).code == 0
    client.heard.clear()  # the group has changed


def with_sql(expression: str = "a > 5", **more: Any) -> Any:
    """A pull that brings its own expression."""
    return pull(subscription=expression, expression_type="SQL92", **more)


def registered(**more: Any) -> Any:
    """A pull for what the heartbeat subscribed."""
    return pull(**{"sys_flag": 0, "subscription": None, "expression_type": "SQL92", "sub_version": 1} | more)


# -- 46


def check(client: Client, expression: str, kind: str = "SQL92") -> tuple[int, str | None]:
    body = CheckClientConfig(client_id="me", group="g", subscription_data=subscription(expression, kind=kind)).encode()
    answer = client.ask(Code.CHECK_CLIENT_CONFIG, body=body)
    return answer.code, answer.remark


def test_clients_may_filter_by_tag_and_sql(client: Client) -> None:
    assert check(client, "a > 5") == (0, None)
    assert check(client, "A || B", "TAG") == (0, None)
    code, remark = check(client, "a > 'x'")
    assert code == 23
    assert str(remark).startswith("illegal SQL expression \"a > 'x'\", character 3: only numbers")
    code, remark = check(client, "a", "XPATH")
    assert code == 23
    assert "'XPATH' is not known" in str(remark)


def test_a_broker_filters_only_with_enable_property_filter(tmp_path: Path) -> None:
    with broker(tmp_path / "store") as plain:
        client = plain.connect()
        code, remark = check(client, "a > 'x'")
        assert (code, remark) == (1, "The broker does not support consumer to filter message by SQL92")
        put(client, 1)
        assert client.ask(Code.PULL_MESSAGE, with_sql()).remark == remark
        beat(client, subscription())
        assert (answer := client.ask(Code.PULL_MESSAGE, registered())).code == 1
        assert answer.remark == remark


# -- checks of a pull


def test_a_pull_may_carry_its_own_expression(client: Client) -> None:
    put(client, 1, 10, "x", 7, 3)
    answer = client.ask(Code.PULL_MESSAGE, with_sql())
    assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (0, "FOUND", "5")
    assert [message.body for message in decode_records(answer.body)] == [b"10", b"7"]


@pytest.mark.parametrize(("expression", "kind"), [("a >", "SQL92"), ("", "SQL92"), ("a > 5", "JMS")])
def test_an_illegal_expression_is_refused(client: Client, expression: str, kind: str) -> None:
    put(client, 1)
    answer = client.ask(Code.PULL_MESSAGE, pull(subscription=expression, expression_type=kind))
    assert answer.code == 23
    assert str(answer.remark).startswith("parse the consumer's subscription failed: ")


def test_registered_expressions_are_checked_in_the_order_of_java(client: Client) -> None:
    put(client, 1, 10)
    assert client.ask(Code.PULL_MESSAGE, registered()).code == 24
    beat(client, subscription("a > 'x'"))
    answer = client.ask(Code.PULL_MESSAGE, registered())
    assert (answer.code, str(answer.remark)[:28]) == (27, "The broker's consumer filter")
    beat(client, subscription(version=2))
    assert client.ask(Code.PULL_MESSAGE, registered(sub_version=3)).code == 25
    answer = client.ask(Code.PULL_MESSAGE, registered(sub_version=2))
    assert [message.body for message in decode_records(answer.body)] == [b"10"]


def test_outdated_filter_data_is_refused(running: InProcess, client: Client) -> None:
    put(client, 1)
    beat(client, subscription(version=5))
    running.services.filters.table["t"]["g"].client_version = 4
    answer = client.ask(Code.PULL_MESSAGE, registered(sub_version=5))
    assert (answer.code, answer.remark) == (28, "the consumer's consumer filter data not latest")


def test_a_pull_without_matches_moves_on_at_once(client: Client) -> None:
    put(client, 1, 2)
    answer = client.ask(Code.PULL_MESSAGE, with_sql(sys_flag=4 | WAIT))
    assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "2")


def test_class_filters_of_old_clients_are_ignored(client: Client) -> None:
    put(client, 1, 10)
    beat(client, SubscriptionData(topic="t", sub_string="a > 5", sub_version=1, expression_type="SQL92",
                                  class_filter_mode=True))  # fmt: skip
    assert len(decode_records(client.ask(Code.PULL_MESSAGE, registered()).body)) == 2


# -- waiting


def test_only_a_matching_message_wakes_a_pull(running: InProcess, client: Client) -> None:
    beat(client, subscription())
    running.turn()
    client.heard.clear()  # the notification of the group
    put(client, 1)
    assert client.call(Code.PULL_MESSAGE, registered(offset=1, sys_flag=WAIT)) is None
    put(client, 2, "x")
    running.turn()
    assert client.heard == []
    put(client, 10)
    running.turn()
    [answer] = client.heard
    assert [message.body for message in decode_records(answer.body)] == [b"10"]
    assert answer.ext["nextBeginOffset"] == "4"


def test_messages_that_do_not_match_are_skipped_at_the_timeout(running: InProcess, client: Client) -> None:
    beat(client, subscription())
    running.turn()
    client.heard.clear()  # the notification of the group
    put(client, 1)
    assert client.call(Code.PULL_MESSAGE, registered(offset=1, sys_flag=WAIT)) is None
    put(client, 2)
    running.turn(14_999)
    assert client.heard == []
    running.turn(1)
    [answer] = client.heard
    assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "2")


# -- retried messages

RETRY = "%RETRY%g"


def retried(client: Client) -> None:
    beat(client, subscription(), SubscriptionData(topic=RETRY, sub_version=1))
    for value, origin in ((1, "t"), (10, "t"), (1, "other")):
        put(client, value, topic=RETRY, RETRY_TOPIC=origin)


def values(client: Client, request: Any) -> list[bytes]:
    return [message.body for message in decode_records(client.ask(Code.PULL_MESSAGE, request).body)]


def test_a_tag_subscription_to_the_retry_topic_gets_all_retried_messages(client: Client) -> None:
    retried(client)
    assert values(client, registered(topic=RETRY, expression_type=None)) == [b"1", b"10", b"1"]


def test_an_expression_on_the_retry_topic_filters_it(client: Client) -> None:
    retried(client)
    assert values(client, with_sql("a < 5", topic=RETRY)) == [b"1", b"1"]


def test_with_retry_support_the_expression_of_the_original_topic_filters(tmp_path: Path) -> None:
    with broker(tmp_path / "store", enable_property_filter=True, filter_support_retry=True) as running:
        client = running.connect()
        retried(client)
        assert values(client, registered(topic=RETRY, expression_type=None)) == [b"1", b"10", b"1"]
        assert values(client, with_sql("a < 5", topic=RETRY)) == [b"10", b"1"]
        put(client, 1, 10)
        assert values(client, registered()) == [b"10"]


# -- what is compiled, and when


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that are read from here on."""
    found: list[str] = []

    def reading(expression: str) -> SqlFilter:
        found.append(expression)
        return compile_sql(expression)

    monkeypatch.setattr("rocketmq_py.broker.metadata.filters.compile_sql", reading)
    return found


def test_a_broker_that_does_not_filter_compiles_nothing(tmp_path: Path, compiled: list[str]) -> None:
    for _ in range(2):  # the second time it has the file of the first
        with broker(tmp_path / "store") as plain:
            client = plain.connect()
            put(client, 1)
            beat(client, subscription("a = 1 OR " * 500 + "a = 1"))
            assert check(client, "a > 'x'")[0] == 1
            assert client.ask(Code.PULL_MESSAGE, with_sql("a = 2")).code == 1
            assert client.ask(Code.PULL_MESSAGE, registered()).code == 1
    assert compiled == []


def test_heartbeats_and_the_start_compile_nothing_and_the_first_pull_does(tmp_path: Path, compiled: list[str]) -> None:
    wanted = [subscription(f"a > {number}", topic=f"t{number}") for number in range(100)]
    for _ in range(2):
        with broker(tmp_path / "store", enable_property_filter=True) as running:
            client = running.connect()
            put(client, 7, topic="t6")
            beat(client, *wanted)
            assert compiled == []
            assert client.ask(Code.PULL_MESSAGE, registered(topic="t6")).code == 0
            assert set(compiled) == {"a > 6"}
            compiled.clear()


def test_too_long_expressions_are_refused_everywhere(
    tmp_path: Path, running: InProcess, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    put(client, 1)
    long = "a = '" + "x" * 70_000 + "'"
    code, remark = check(client, long)
    assert code == 23
    assert "70006 characters, more than the 65536" in str(remark)
    assert client.ask(Code.PULL_MESSAGE, with_sql(long)).code == 23
    beat(client, subscription(long))
    assert running.services.filters.get("t", "g") is None
    assert client.ask(Code.PULL_MESSAGE, registered()).code == 27
    entry = {"topic": "t", "consumerGroup": "g", "expression": long, "expressionType": "SQL92"}
    assert table(tmp_path, entry).table == {}
    assert len(caplog.messages) >= 2
    assert max(map(len, caplog.messages)) < 500


def test_a_read_evaluates_an_expensive_expression_on_few_messages(running: InProcess, client: Client) -> None:
    """A pull of 800 messages would otherwise hold everybody for seconds."""
    put(client, *range(100))
    expression = "b CONTAINS 'y' OR " * 1_000 + "a = 99"
    answer = client.ask(Code.PULL_MESSAGE, with_sql(expression))
    assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
    following = int(answer.ext["nextBeginOffset"])
    assert 1 <= following <= 10
    while answer.code == 20:
        answer = client.ask(Code.PULL_MESSAGE, with_sql(expression, offset=following))
        following = int(answer.ext["nextBeginOffset"])
    assert [message.body for message in decode_records(answer.body)] == [b"99"]
    del running


def test_retried_messages_are_limited_by_the_cost_of_their_groups_expressions(tmp_path: Path) -> None:
    with broker(tmp_path / "store", enable_property_filter=True, filter_support_retry=True) as running:
        client = running.connect()
        beat(client, subscription("b CONTAINS 'y' OR " * 1_000 + "a = 99"), SubscriptionData(topic=RETRY))
        put(client, *range(100), topic=RETRY, RETRY_TOPIC="t")
        answer = client.ask(Code.PULL_MESSAGE, with_sql("a < 5", topic=RETRY))
        assert 1 <= int(answer.ext["nextBeginOffset"]) <= 10


# -- what is remembered


def test_newer_expressions_replace_older_ones(running: InProcess, client: Client) -> None:
    found = running.services.filters.get
    put(client, 1)
    beat(client, subscription("a > 5", version=2))
    beat(client, subscription("a > 6", version=2))
    beat(client, subscription("a > 7", version=1))
    assert found("t", "g").expression == "a > 5"
    born = found("t", "g").born_time
    running.now += 5
    beat(client, subscription("a > 5", version=3))
    assert (found("t", "g").client_version, found("t", "g").born_time) == (3, born)
    beat(client, subscription("a > 8", version=4))
    assert (found("t", "g").expression, found("t", "g").born_time) == ("a > 8", born + 5)
    beat(client, subscription("a >", version=5))
    assert client.ask(Code.PULL_MESSAGE, registered(sub_version=5)).code == 27
    assert found("t", "g") is None


def test_expressions_stay_for_a_day_after_their_group_left(running: InProcess, client: Client) -> None:
    filters = running.services.filters
    beat(client, subscription())
    running.now += 1
    client.ask(Code.UNREGISTER_CLIENT, UnregisterClient(client_id="me", consumer_group="g"))
    assert filters.get("t", "g").is_dead
    beat(client, subscription())
    assert not filters.get("t", "g").is_dead
    running.now += 1
    client.leave()
    assert filters.get("t", "g").is_dead
    running.now += DAY - 1
    filters.persist()
    assert filters.get("t", "g") is not None
    running.now += 1
    filters.persist()
    assert filters.table == {}


def test_only_the_unsubscribed_topic_loses_its_expression(running: InProcess, client: Client) -> None:
    filters = running.services.filters
    beat(client, subscription(), subscription(topic="u"))
    beat(client, subscription(topic="other"), group="h")
    running.now += 1
    beat(client, subscription())
    dead = {topic: data.is_dead for topic, groups in filters.table.items() for data in groups.values()}
    assert dead == {"t": False, "u": True, "other": False}
    beat(client, subscription(version=2), subscription(topic="u", version=2))
    assert not filters.get("u", "g").is_dead


def test_heartbeats_without_subscriptions_change_nothing(running: InProcess, client: Client) -> None:
    beat(client, subscription())
    body = HeartbeatData(client_id="me", consumer_data_set=[ConsumerData(group_name="g")], heartbeat_fingerprint=7,
                         without_sub=True).encode()  # fmt: skip
    running.now += 1
    client.ask(Code.HEART_BEAT, body=body)
    assert not running.services.filters.get("t", "g").is_dead


def test_tag_subscriptions_are_not_kept(running: InProcess, client: Client) -> None:
    client.ask(Code.HEART_BEAT, body=heartbeat(t="A"))
    beat(client, SubscriptionData(topic="u", sub_string="", expression_type="SQL92"))
    assert running.services.filters.table == {}


# -- the file


def test_the_file_equals_java_s(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with broker(root, enable_property_filter=True) as running:
        running.services.filters.persist()
        assert not (root / "config" / "consumerFilter.json").exists()
        beat(running.connect(), subscription())
    assert json.loads((root / "config" / "consumerFilter.json").read_bytes()) == {
        "filterDataByTopic": {"t": {"topic": "t", "groupFilterData": {"g": {
            "bornTime": START_MS, "clientVersion": 1, "consumerGroup": "g", "deadTime": 0, "expression": "a > 5",
            "expressionType": "SQL92", "topic": "t", "dead": False, "bloomFilterData": bloom_data("g", "t"),
        }}}},
    }  # fmt: skip
    with broker(root, enable_property_filter=True) as running:
        [data] = running.services.filters.table["t"].values()
        assert (data.expression, data.dead_time, data.is_dead) == ("a > 5", START_MS, True)
        client = running.connect()
        put(client, 1, 10)
        beat(client, subscription())
        assert values(client, registered()) == [b"10"]


def table(tmp_path: Path, *entries: dict[str, Any] | None, now: int = START_MS) -> ConsumerFilters:
    """What is made of the entries of a file."""
    file = ConfigFile(tmp_path / "consumerFilter.json")
    groups = {f"g{i}": entry for i, entry in enumerate(entries)}
    file.save({"filterDataByTopic": {"t": {"topic": "t", "groupFilterData": groups}, "empty": None}})
    filters = ConsumerFilters(file, DAY, lambda: now)
    filters.load()
    return filters


def test_a_file_of_java_is_loaded(tmp_path: Path) -> None:
    entry = {"topic": "t", "consumerGroup": "g", "expression": "a > 5", "expressionType": "SQL92", "bornTime": 5,
             "deadTime": 0, "clientVersion": 3, "bloomFilterData": {"bitNum": 112, "bitPos": [1, 2, 3]}}  # fmt: skip
    filters = table(tmp_path, entry, entry | {"deadTime": 9}, entry | {"expression": "a >"}, {"topic": "t"}, None)
    assert filters.compiled("t", "g2") is None  # illegal, which is seen when somebody pulls by it
    assert list(filters.table["t"]) == ["g0", "g1"]
    assert [data.dead_time for data in filters.table["t"].values()] == [START_MS - 30_000, 9]
    filters.persist()
    content = (tmp_path / "consumerFilter.json").read_bytes()
    tree = json.loads(content)
    assert content == dumps_pretty(tree)
    assert tree["filterDataByTopic"]["t"]["topic"] == "t"
    kept = tree["filterDataByTopic"]["t"]["groupFilterData"]["g0"]
    assert kept == entry | {"deadTime": START_MS - 30_000, "dead": True}
    assert list(kept) == sorted(kept)


def test_only_changed_expressions_are_saved(tmp_path: Path) -> None:
    entry = {"topic": "t", "expression": "a > 5", "expressionType": "SQL92", "bornTime": 5}
    saved: list[object] = []
    filters = table(tmp_path, *(entry | {"consumerGroup": f"g{number}"} for number in range(3)))
    filters._save = lambda file, changes: saved.append(list(changes))
    filters.persist()
    filters.persist()
    filters.register("g1", [subscription()])
    filters.persist()
    filters.register("g1", [subscription()])
    filters.persist()
    filters.unregister("g1")
    filters.persist()
    assert saved == [[("t", "g0"), ("t", "g1"), ("t", "g2")], [("t", "g1")], [("t", "g1")]]


def test_filters_may_change_while_outdated_ones_are_dropped_in_steps(tmp_path: Path) -> None:
    entry = {"topic": "t", "expression": "a > 5", "expressionType": "SQL92", "bornTime": 5, "deadTime": 9}
    filters = table(tmp_path, *(entry | {"consumerGroup": f"g{number}"} for number in range(4)))
    steps = filters.persist_in_steps()
    next(steps)
    assert list(filters.table["t"]) == ["g1", "g2", "g3"], "one in each step"
    filters.register("g1", [subscription(version=1)])
    filters._remove("t", "g2")
    for _ in steps:
        pass
    assert list(filters.table["t"]) == ["g1"]
    groups = json.loads((tmp_path / "consumerFilter.json").read_bytes())["filterDataByTopic"]["t"]["groupFilterData"]
    assert list(groups) == ["g1"]


def test_filters_are_persisted_in_slices(running: InProcess, client: Client) -> None:
    filters = running.services.filters
    beat(client, *(subscription(topic=f"t{number}") for number in range(3)))
    running.now += 1
    client.leave()
    running.now += DAY
    running.services.persist_filters()
    assert len(filters.table) == 3, "in a later turn"
    running.services.slices.finish()
    assert filters.table == {}


def test_the_bits_of_a_group_equal_java_s() -> None:
    assert bloom_data("gg", "tt") == {"bitNum": 112, "bitPos": [66, 24, 83]}  # as a Java broker wrote them


def test_an_emptied_table_empties_the_file(tmp_path: Path) -> None:
    entry = {"topic": "t", "consumerGroup": "g0", "expression": "a > 5", "expressionType": "SQL92", "deadTime": 1}
    filters = table(tmp_path, entry)
    filters.persist()
    assert json.loads((tmp_path / "consumerFilter.json").read_bytes()) == {"filterDataByTopic": {}}


def test_a_pop_of_many_queues_evaluates_an_expensive_expression_on_few_messages(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each queue may take would add up."""
    asked: list[object] = []
    original = SqlFilter.matches

    def counting(self: SqlFilter, properties: Any) -> bool:
        asked.append(self)
        return original(self, properties)

    running.services.topics.put([TopicConfig(topic_name="many", read_queue_nums=40, write_queue_nums=40)])
    for queue_id in range(40):
        header = send("many", queue_id=queue_id, properties={"a": "1"})
        assert client.ask(Code.SEND_MESSAGE_V2, header, b"x").code == 0
    monkeypatch.setattr(SqlFilter, "matches", counting)
    client.call(Code.POP_MESSAGE, pop("many", exp="b CONTAINS 'y' OR " * 1_000 + "a = 99", exp_type="SQL92"))
    assert 1 <= len(asked) <= 10
